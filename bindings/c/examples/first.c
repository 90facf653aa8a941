/* Counts and logs events: lone operations, a transaction, and a run that is repeated until it commits. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tyr.h>

/* Ends the program if a call failed. */
static void check(int status) {
    if (status != TYR_OK) {
        fprintf(stderr, "%s: %s\n", tyr_status_name(status), tyr_error_message());
        exit(1);
    }
}

/* Moves the log to another key, and counts that it did. */
static int archive(void *context, tyr_transaction *transaction) {
    tyr_keyspace *events = context;
    tyr_content *log = NULL;
    tyr_transform one = {.op = TYR_ADD, .operand = {.type = TYR_U64, .value.u64 = 1}};
    int status = tyr_transaction_read(transaction, events, tyr_text("log"), 0, TYR_END, &log, NULL);
    if (status != TYR_OK) return status;
    tyr_bytes bytes = tyr_content_bytes(log);
    status = tyr_transaction_put(transaction, events, tyr_text("archive"), &bytes, 1, NULL);
    tyr_content_free(log);
    if (status != TYR_OK) return status;
    status = tyr_transaction_delete(transaction, events, tyr_text("log"), NULL);
    if (status != TYR_OK) return status;
    return tyr_transaction_transform(transaction, events, tyr_text("archived"), 0, &one, NULL, NULL);
}

int main(int count, char **words) {
    if (count != 2) {
        fprintf(stderr, "usage: %s STORE\n", words[0]);
        return 2;
    }
    tyr_options options = {.segment_size = 1 << 20};
    tyr_store *store = NULL;
    tyr_keyspace *events = NULL;
    check(tyr_store_open(words[1], &options, &store, NULL));
    check(tyr_store_create_keyspace(store, "events", NULL, &events, NULL));

    /* A lone operation is a transaction of one: atomic, and durable when it returns. */
    uint64_t offset = 0;
    tyr_bytes first = tyr_text("a first event\n");
    check(tyr_keyspace_append(events, tyr_text("log"), &first, 1, &offset, NULL));

    /* Several parts are written at once, and nothing is copied to bring them together. */
    tyr_bytes parts[] = {tyr_text("a second "), tyr_text("event\n")};
    check(tyr_keyspace_append(events, tyr_text("log"), parts, 2, &offset, NULL));
    printf("the second event is at %llu\n", (unsigned long long)offset);

    char begin[8] = {0}, rest[32] = {0};
    tyr_buffer buffers[] = {{begin, sizeof begin - 1}, {rest, sizeof rest - 1}};
    uint64_t size = 0;
    check(tyr_keyspace_read_into(events, tyr_text("log"), 0, buffers, 2, &size, NULL));
    printf("%llu bytes: '%s' and then '%s'\n", (unsigned long long)size, begin, rest);

    check(tyr_store_run(store, archive, events, NULL));
    int exists = 1;
    check(tyr_keyspace_exists(events, tyr_text("log"), &exists, NULL));
    printf("the log is %s\n", exists ? "still there" : "archived");

    int status = tyr_keyspace_delete(events, tyr_text("log"), NULL);
    printf("%s: %s\n", tyr_status_name(status), tyr_error_message());

    check(tyr_store_drop_keyspace(store, "events", NULL));
    check(tyr_keyspace_free(events));
    check(tyr_store_close(store, NULL));
    return 0;
}
