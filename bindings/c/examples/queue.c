/* Many appends under way at once, by a completion queue. */

#include <stdio.h>
#include <stdlib.h>

#include <tyr.h>

enum { EVENTS = 1000, AT_ONCE = 32 };

static void check(int status) {
    if (status != TYR_OK) {
        fprintf(stderr, "%s: %s\n", tyr_status_name(status), tyr_error_message());
        exit(1);
    }
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: %s STORE\n", words[0]);
        return 2;
    }
    tyr_options options = {.segment_size = 1 << 20};
    tyr_store *store = NULL;
    tyr_keyspace *events = NULL;
    tyr_queue *queue = NULL;
    check(tyr_store_open(words[1], &options, &store, NULL));
    check(tyr_store_create_keyspace(store, "queued", NULL, &events, NULL));
    check(tyr_queue_create(&queue));

    /* What is written, and where it went, has to stay until the operation has ended. */
    static const char line[] = "0123456789\n";
    static uint64_t offsets[EVENTS];
    tyr_bytes part = tyr_some(line, sizeof line - 1);
    size_t begun = 0, ended = 0;
    while (ended < EVENTS) {
        while (begun < EVENTS && begun - ended < AT_ONCE) {
            tyr_async how = {.queue = queue, .context = &offsets[begun]};
            check(tyr_keyspace_append(events, tyr_text("log"), &part, 1, &offsets[begun], &how));
            ++begun;
        }
        tyr_event done[AT_ONCE];
        size_t some = 0;
        check(tyr_queue_wait(queue, done, AT_ONCE, -1, &some));
        for (size_t place = 0; place < some; ++place) {
            if (done[place].status != TYR_OK) {
                fprintf(stderr, "%s: %s\n", tyr_status_name(done[place].status), done[place].message);
                return 1;
            }
        }
        ended += some;
    }
    tyr_stat stat;
    check(tyr_keyspace_stat(events, tyr_text("log"), &stat, NULL, NULL));
    printf("%d events, %llu bytes\n", EVENTS, (unsigned long long)stat.size);

    check(tyr_queue_free(queue));
    check(tyr_store_drop_keyspace(store, "queued", NULL));
    check(tyr_keyspace_free(events));
    check(tyr_store_close(store, NULL));
    return 0;
}
