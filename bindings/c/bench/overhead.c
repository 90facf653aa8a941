/* The C half of the comparison of libtyr with the Rust client; overhead.rs says what it is told. */

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tyr.h>

static tyr_store *store;
static tyr_keyspace *files;
static tyr_queue *queue;

static void check(int status) {
    if (status != TYR_OK) {
        fprintf(stderr, "%s: %s\n", tyr_status_name(status), tyr_error_message());
        exit(1);
    }
}

static void one(const char *workload, char *buffer, size_t size, tyr_async *how) {
    static const tyr_transform add = {.op = TYR_ADD, .operand = {.type = TYR_U64, .value.u64 = 1}};
    tyr_bytes part = {buffer, size};
    tyr_buffer room = {buffer, size};
    switch (workload[0]) {
    case 'r': check(tyr_keyspace_read_into(files, tyr_text("blob"), 0, &room, 1, NULL, how)); break;
    case 'w': check(tyr_keyspace_write(files, tyr_text("blob"), 0, &part, 1, how)); break;
    case 'a':
        if (workload[1] == 'p')
            check(tyr_keyspace_append(files, tyr_text("log"), &part, 1, NULL, how));
        else
            check(tyr_keyspace_transform(files, tyr_text("blob"), 0, &add, NULL, how));
        break;
    default: exit(2);
    }
}

static void at_once(const char *workload, size_t count, size_t size, size_t depth) {
    char **buffers = malloc(depth * sizeof *buffers);
    size_t begun = 0, ended = 0;
    tyr_event events[64];
    for (; begun < depth && begun < count; ++begun) {
        buffers[begun] = malloc(size);
        memset(buffers[begun], 7, size);
        tyr_async how = {.queue = queue, .context = buffers[begun]};
        one(workload, buffers[begun], size, &how);
    }
    size_t first = begun;
    while (ended < count) {
        size_t some = 0;
        check(tyr_queue_wait(queue, events, 64, -1, &some));
        ended += some;
        for (size_t place = 0; place < some; ++place) {
            check(events[place].status);
            if (begun == count) continue;
            ++begun;
            tyr_async how = {.queue = queue, .context = events[place].context};
            one(workload, events[place].context, size, &how);
        }
    }
    for (size_t place = 0; place < first; ++place) free(buffers[place]);
    free(buffers);
}

int main(int count, char **words) {
    if (count != 2) return 2;
    tyr_options options = {.segment_size = 8 << 20};
    tyr_settings settings;
    check(tyr_store_open(words[1], &options, &store, NULL));
    check(tyr_settings_default(&settings));
    settings.durability = tyr_store_is_cluster(store) ? TYR_DISK : TYR_MEMORY;
    /* Both halves use the same one, so that what they use lies at the same places. */
    if (tyr_store_keyspace(store, "bench", &files) != TYR_OK)
        check(tyr_store_create_keyspace(store, "bench", &settings, &files, NULL));
    check(tyr_queue_create(&queue));
    puts("ready");
    fflush(stdout);
    char workload[16];
    size_t times, size, depth;
    while (scanf("%15s %zu %zu %zu", workload, &times, &size, &depth) == 4) {
        char *buffer = malloc(size);
        memset(buffer, 7, size);
        tyr_bytes part = {buffer, size};
        if (strcmp(workload, "append") == 0)
            check(tyr_keyspace_put(files, tyr_text("log"), NULL, 0, NULL));
        else
            check(tyr_keyspace_put(files, tyr_text("blob"), &part, 1, NULL));
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        if (depth == 0)
            for (size_t i = 0; i < times; ++i) one(workload, buffer, size, NULL);
        else
            at_once(workload, times, size, depth);
        clock_gettime(CLOCK_MONOTONIC, &to);
        printf("%lld\n", (to.tv_sec - from.tv_sec) * 1000000000ll + (to.tv_nsec - from.tv_nsec));
        fflush(stdout);
        free(buffer);
    }
    check(tyr_queue_free(queue));
    check(tyr_keyspace_free(files));
    check(tyr_store_close(store, NULL));
    return 0;
}
