/* Calls that are wrong: each is an error that says so, and nothing breaks. */

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tyr.h>

#define WANT(status, call)                                                                                  \
    do {                                                                                                    \
        int told = (call);                                                                                  \
        if (told != (status)) {                                                                             \
            fprintf(stderr, "line %d: %s is told %s (%s)\n", __LINE__, #call, tyr_status_name(told),        \
                    tyr_error_message());                                                                   \
            exit(1);                                                                                        \
        }                                                                                                   \
        if (told < 0 && strlen(tyr_error_message()) == 0) {                                                 \
            fprintf(stderr, "line %d: no text\n", __LINE__);                                                \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)
#define HOLDS(condition)                                                                                    \
    do {                                                                                                    \
        if (!(condition)) {                                                                                 \
            fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition);                                 \
            exit(1);                                                                                        \
        }                                                                                                   \
    } while (0)

static tyr_store *store;
static tyr_keyspace *files;
static const char *place;

static tyr_bytes key(void) { return tyr_text("a"); }

static void put(const char *text) {
    tyr_bytes bytes = tyr_text(text);
    WANT(TYR_OK, tyr_keyspace_put(files, key(), &bytes, 1, NULL));
}

static void null_handles(void) {
    int exists;
    size_t count;
    tyr_event event;
    WANT(TYR_INVALID, tyr_store_open(NULL, NULL, NULL, NULL));
    WANT(TYR_INVALID, tyr_store_open("x", NULL, NULL, NULL));
    WANT(TYR_INVALID, tyr_store_free(NULL));
    WANT(TYR_INVALID, tyr_store_close(NULL, NULL));
    WANT(TYR_INVALID, tyr_keyspace_create(NULL, key(), NULL));
    WANT(TYR_INVALID, tyr_keyspace_exists(files, key(), NULL, NULL));
    WANT(TYR_INVALID, tyr_keyspace_exists(NULL, key(), &exists, NULL));
    WANT(TYR_INVALID, tyr_store_run(store, NULL, NULL, NULL));
    WANT(TYR_INVALID, tyr_cancel(NULL));
    WANT(TYR_INVALID, tyr_queue_wait(NULL, &event, 1, 0, &count));
    WANT(TYR_INVALID, tyr_keyspace_transform(files, key(), 0, NULL, NULL, NULL));
    WANT(TYR_INVALID, tyr_store_create_keyspace(store, NULL, NULL, NULL, NULL));
    WANT(TYR_INVALID, tyr_keyspace_set_attribute(files, key(), NULL, NULL, NULL));
    HOLDS(tyr_list_size(NULL) == 0);
    HOLDS(tyr_content_bytes(NULL).size == 0);
    HOLDS(tyr_keyspace_name(NULL).size == 0);
    HOLDS(tyr_store_is_cluster(NULL) == TYR_INVALID);
}

static void dead_handles(void) {
    tyr_keyspace *other;
    tyr_transaction *transaction;
    tyr_content *content;
    WANT(TYR_OK, tyr_store_keyspace(store, "files", &other));
    WANT(TYR_OK, tyr_keyspace_free(other));
    WANT(TYR_INVALID, tyr_keyspace_free(other));
    WANT(TYR_INVALID, tyr_keyspace_create(other, key(), NULL));
    /* The place of the handle may be used again; the handle still is dead. */
    for (int i = 0; i < 100; ++i) {
        tyr_keyspace *anew;
        WANT(TYR_OK, tyr_store_keyspace(store, "files", &anew));
        HOLDS(anew != other);
        WANT(TYR_INVALID, tyr_keyspace_create(other, key(), NULL));
        WANT(TYR_OK, tyr_keyspace_free(anew));
    }
    WANT(TYR_OK, tyr_store_begin(store, &transaction));
    WANT(TYR_OK, tyr_transaction_commit(transaction, NULL, NULL));
    WANT(TYR_INVALID, tyr_transaction_commit(transaction, NULL, NULL));
    WANT(TYR_INVALID, tyr_transaction_create(transaction, files, key(), NULL));
    WANT(TYR_OK, tyr_transaction_free(transaction));
    WANT(TYR_INVALID, tyr_transaction_free(transaction));
    put("content");
    WANT(TYR_OK, tyr_keyspace_read(files, key(), 0, TYR_END, &content, NULL));
    WANT(TYR_OK, tyr_content_free(content));
    HOLDS(tyr_content_bytes(content).size == 0);
    WANT(TYR_INVALID, tyr_content_free(content));
}

static void wrong_handles(void) {
    int number = 0;
    /* A store is no keyspace, and memory of the program is no handle. */
    WANT(TYR_INVALID, tyr_keyspace_create((tyr_keyspace *)store, key(), NULL));
    WANT(TYR_INVALID, tyr_keyspace_create((tyr_keyspace *)&number, key(), NULL));
    WANT(TYR_INVALID, tyr_keyspace_create((tyr_keyspace *)(uintptr_t)1, key(), NULL));
    WANT(TYR_INVALID, tyr_store_free((tyr_store *)(uintptr_t)UINTPTR_MAX));
    unsigned long long bits = 88172645463325252ull;
    for (int i = 0; i < 100000; ++i) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        tyr_store *made_up = (tyr_store *)(uintptr_t)bits;
        if (made_up != store) HOLDS(tyr_store_is_cluster(made_up) == TYR_INVALID);
    }
}

static void huge_lengths(void) {
    char some[4] = {0};
    tyr_bytes huge = tyr_some(some, SIZE_MAX), null = tyr_some(NULL, 10);
    tyr_buffer room = {some, SIZE_MAX}, nowhere = {NULL, 4};
    tyr_list *list;
    WANT(TYR_INVALID, tyr_keyspace_create(files, huge, NULL));
    WANT(TYR_INVALID, tyr_keyspace_create(files, null, NULL));
    WANT(TYR_INVALID, tyr_keyspace_put(files, key(), &huge, 1, NULL));
    WANT(TYR_INVALID, tyr_keyspace_put(files, key(), &null, 1, NULL));
    WANT(TYR_INVALID, tyr_keyspace_put(files, key(), NULL, 3, NULL));
    WANT(TYR_INVALID, tyr_keyspace_put(files, key(), &huge, SIZE_MAX, NULL));
    WANT(TYR_INVALID, tyr_keyspace_read_into(files, key(), 0, &room, 1, NULL, NULL));
    WANT(TYR_INVALID, tyr_keyspace_read_into(files, key(), 0, &nowhere, 1, NULL, NULL));
    WANT(TYR_INVALID, tyr_keyspace_read_into(files, key(), 0, &room, SIZE_MAX / 2, NULL, NULL));
    WANT(TYR_INVALID, tyr_keyspace_stats(files, &null, SIZE_MAX, &list, NULL));
    WANT(TYR_INVALID, tyr_keyspace_write(files, key(), UINT64_MAX, &(tyr_bytes){some, 1}, 1, NULL));
    tyr_bytes twice[] = {{some, 4}, {some, 4}};
    WANT(TYR_INVALID, tyr_keyspace_write(files, key(), UINT64_MAX, twice, 2, NULL));
    WANT(TYR_INVALID, tyr_keyspace_truncate(files, key(), UINT64_MAX, NULL));
    WANT(TYR_INVALID, tyr_keyspace_punch(files, key(), 2, 1, NULL));
    uint64_t found = 7;
    WANT(TYR_INVALID, tyr_keyspace_seek(files, key(), 77, 0, &found, NULL));
    WANT(TYR_INVALID, tyr_keyspace_seek(files, key(), TYR_DATA, 0, NULL, NULL));
    /* Nothing is a fine thing to write and to read. */
    WANT(TYR_OK, tyr_keyspace_put(files, key(), NULL, 0, NULL));
    WANT(TYR_OK, tyr_keyspace_read_into(files, key(), 0, NULL, 0, NULL, NULL));
}

static void odd_numbers(void) {
    tyr_transform odd = {.op = 77, .operand = {.type = TYR_U64, .value = {.u64 = 1}}};
    WANT(TYR_INVALID, tyr_keyspace_transform(files, key(), 0, &odd, NULL, NULL));
    odd.op = TYR_ADD, odd.operand.type = -1;
    WANT(TYR_INVALID, tyr_keyspace_transform(files, key(), 0, &odd, NULL, NULL));
    tyr_options options = {.create = 9};
    tyr_store *other;
    WANT(TYR_INVALID, tyr_store_open(place, &options, &other, NULL));
    options.create = 0, options.io = -3;
    WANT(TYR_INVALID, tyr_store_open(place, &options, &other, NULL));
    options.io = TYR_IO_AUTO, options.token = "tyr1-4711notatoken";
    WANT(TYR_INVALID, tyr_store_open("tyr://127.0.0.1:1", &options, &other, NULL));
    HOLDS(strstr(tyr_error_message(), "tyr1-") && !strstr(tyr_error_message(), "4711"));
    options.token_file = "/nowhere";
    WANT(TYR_INVALID, tyr_store_open("tyr://127.0.0.1:1", &options, &other, NULL));
    options.token = NULL;
    WANT(TYR_INVALID, tyr_store_open("tyr://127.0.0.1:1", &options, &other, NULL));
    WANT(TYR_INVALID, tyr_store_create_keyspace(store, "\xff\xfe", NULL, NULL, NULL));
    tyr_async nowhere = {0};
    WANT(TYR_INVALID, tyr_keyspace_create(files, key(), &nowhere));
    HOLDS(strcmp(tyr_status_name(12345), "unknown") == 0);
}

static atomic_int called;

/* A callback that calls back in, waiting and not. */
static void calls_back(void *context, int status) {
    int exists = 0;
    HOLDS(status == TYR_OK);
    WANT(TYR_OK, tyr_keyspace_exists(files, key(), &exists, NULL));
    HOLDS(exists == 1);
    if (context) {
        tyr_async again = {.callback = calls_back, .context = (char *)context - 1};
        tyr_bytes part = tyr_text("x");
        WANT(TYR_OK, tyr_keyspace_append(files, key(), &part, 1, NULL, &again));
        WANT(TYR_NOT_FOUND, tyr_keyspace_delete(files, tyr_text("missing"), NULL));
    }
    atomic_fetch_add(&called, 1);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int failed_with;

static void fails(void *context, int status) {
    (void)context;
    pthread_mutex_lock(&mutex);
    failed_with = status;
    HOLDS(strlen(tyr_error_message()) > 0);
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
}

static void callbacks(void) {
    tyr_bytes part = tyr_text("x");
    put("");
    tyr_async how = {.callback = calls_back, .context = (void *)(uintptr_t)20};
    WANT(TYR_OK, tyr_keyspace_append(files, key(), &part, 1, NULL, &how));
    /* Callbacks follow one another, so the one that is called for this comes after the first. */
    while (atomic_load(&called) < 21) sched_yield();
    tyr_stat stat;
    WANT(TYR_OK, tyr_keyspace_stat(files, key(), &stat, NULL, NULL));
    HOLDS(stat.size == 21);
    WANT(TYR_NOT_FOUND, tyr_cancel(how.operation));
    tyr_async failing = {.callback = fails};
    WANT(TYR_OK, tyr_keyspace_delete(files, tyr_text("missing"), &failing));
    pthread_mutex_lock(&mutex);
    while (failed_with == 0) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
    HOLDS(failed_with == TYR_NOT_FOUND);
}

static tyr_transaction *queued;
static atomic_int waited;

static void waits_in_turn(void *context, int status) {
    tyr_bytes part = tyr_text("last");
    (void)context;
    HOLDS(status == TYR_OK);
    WANT(TYR_OK, tyr_transaction_write(queued, files, tyr_text("turns"), 0, &part, 1, NULL));
    atomic_fetch_add(&waited, 1);
}

/* A callback may wait for a transaction while other operations of it have their turn first, whoever is told of these. */
static void callbacks_that_wait(void) {
    enum { SIZE = 8 << 20 };
    tyr_queue *queue;
    tyr_event event;
    tyr_content *content;
    size_t count;
    char *large = calloc(1, SIZE);
    tyr_bytes bytes = tyr_some(large, SIZE);
    WANT(TYR_OK, tyr_queue_create(&queue));
    WANT(TYR_OK, tyr_store_begin(store, &queued));
    tyr_async all[] = {{.callback = waits_in_turn}, {.callback = waits_in_turn}, {.queue = queue}};
    for (int i = 0; i < 3; ++i)
        WANT(TYR_OK, tyr_transaction_write(queued, files, tyr_text("turns"), 0, &bytes, 1, &all[i]));
    /* A callback that waits for ever is ended by the alarm. Nobody waits at the queue meanwhile. */
    alarm(60);
    while (atomic_load(&waited) < 2) sched_yield();
    alarm(0);
    WANT(TYR_OK, tyr_queue_wait(queue, &event, 1, -1, &count));
    HOLDS(count == 1 && event.status == TYR_OK);
    WANT(TYR_OK, tyr_queue_free(queue));
    WANT(TYR_OK, tyr_transaction_commit(queued, NULL, NULL));
    WANT(TYR_OK, tyr_transaction_free(queued));
    WANT(TYR_OK, tyr_keyspace_read(files, tyr_text("turns"), 0, 4, &content, NULL));
    HOLDS(memcmp(tyr_content_bytes(content).data, "last", 4) == 0);
    WANT(TYR_OK, tyr_content_free(content));
    free(large);
}

static void queues(void) {
    tyr_queue *queue;
    tyr_event events[8];
    size_t count = 77;
    WANT(TYR_OK, tyr_queue_create(&queue));
    WANT(TYR_INVALID, tyr_queue_wait(queue, NULL, 8, 0, &count));
    WANT(TYR_INVALID, tyr_queue_wait(queue, events, 0, 0, &count));
    WANT(TYR_OK, tyr_queue_wait(queue, events, 8, 0, &count));
    HOLDS(count == 0);
    /* Cancelled or not, each operation is told of once, and says how it ended. */
    char buffer[64];
    tyr_buffer room = {buffer, sizeof buffer};
    int begun = 0, ended = 0;
    for (; begun < 50; ++begun) {
        tyr_async how = {.queue = queue, .context = &begun};
        WANT(TYR_OK, tyr_keyspace_read_into(files, key(), 0, &room, 1, NULL, &how));
        int cancelled = tyr_cancel(how.operation);
        HOLDS(cancelled == TYR_OK || cancelled == TYR_NOT_FOUND);
        WANT(TYR_NOT_FOUND, tyr_cancel(how.operation));
    }
    while (ended < begun) {
        WANT(TYR_OK, tyr_queue_wait(queue, events, 8, -1, &count));
        for (size_t i = 0; i < count; ++i) {
            HOLDS(events[i].context == &begun);
            HOLDS(events[i].status == TYR_OK || events[i].status == TYR_CANCELLED);
            HOLDS((events[i].status == TYR_OK) == (events[i].message[0] == 0));
        }
        ended += (int)count;
    }
    WANT(TYR_OK, tyr_queue_free(queue));
    WANT(TYR_INVALID, tyr_queue_free(queue));
    WANT(TYR_INVALID, tyr_queue_wait(queue, events, 8, 0, &count));
    tyr_async how = {.queue = queue};
    WANT(TYR_INVALID, tyr_keyspace_create(files, key(), &how));
}

/* Who comes and goes takes nothing from the count of those who sleep, so who waits for ever is woken. */

enum { OPERATIONS = 20000 };
static tyr_queue *shared;
static atomic_int told_of, is_done;

static void *looks_in(void *context) {
    tyr_event event;
    size_t count;
    (void)context;
    while (!atomic_load(&is_done)) {
        WANT(TYR_OK, tyr_queue_wait(shared, &event, 1, 0, &count));
        atomic_fetch_add(&told_of, (int)count);
    }
    return NULL;
}

static void *waits_for_ever(void *context) {
    tyr_event event;
    size_t count;
    do {
        WANT(TYR_OK, tyr_queue_wait(shared, &event, 1, -1, &count));
        atomic_fetch_add(&told_of, (int)count);
    } while (event.context != context);
    return NULL;
}

static void who_sleeps_is_woken(void) {
    pthread_t lookers[4], sleeper;
    int exists[OPERATIONS / 1000];
    WANT(TYR_OK, tyr_queue_create(&shared));
    for (int i = 0; i < 4; ++i) pthread_create(&lookers[i], NULL, looks_in, NULL);
    pthread_create(&sleeper, NULL, waits_for_ever, &shared);
    for (int i = 0; i < OPERATIONS; ++i) {
        tyr_async how = {.queue = shared};
        WANT(TYR_OK, tyr_keyspace_exists(files, key(), &exists[i % (OPERATIONS / 1000)], &how));
    }
    while (atomic_load(&told_of) < OPERATIONS) sched_yield();
    atomic_store(&is_done, 1);
    for (int i = 0; i < 4; ++i) pthread_join(lookers[i], NULL);
    /* Nobody else is there to be told of this one; a sleeper whom nobody wakes is ended by the alarm. */
    tyr_async how = {.queue = shared, .context = &shared};
    alarm(60);
    WANT(TYR_OK, tyr_keyspace_exists(files, key(), exists, &how));
    pthread_join(sleeper, NULL);
    alarm(0);
    HOLDS(atomic_load(&told_of) == OPERATIONS + 1);
    WANT(TYR_OK, tyr_queue_free(shared));
}

/* An operation of a transaction that fails leaves it as it was, in however many parts its bytes are. */
static void failed_parts(void) {
    tyr_transaction *transaction;
    tyr_content *content;
    tyr_stat stat;
    tyr_bytes two[] = {tyr_text("head"), tyr_text("tail")};
    put("content");
    WANT(TYR_OK, tyr_store_begin(store, &transaction));
    WANT(TYR_INVALID, tyr_transaction_write(transaction, files, key(), INT64_MAX - 4, two, 2, NULL));
    WANT(TYR_OK, tyr_transaction_commit(transaction, NULL, NULL));
    WANT(TYR_OK, tyr_transaction_free(transaction));
    WANT(TYR_OK, tyr_keyspace_stat(files, key(), &stat, NULL, NULL));
    HOLDS(stat.size == 7);

    /* Many parts are no more than one: neither of them is small, and they have one slot. */
    enum { COUNT = 20000, SIZE = 100 };
    static char line[SIZE];
    static tyr_bytes lines[COUNT];
    uint32_t slot = 77;
    for (int i = 0; i < COUNT; ++i) lines[i] = tyr_some(line, SIZE);
    WANT(TYR_OK, tyr_store_begin(store, &transaction));
    WANT(TYR_OK, tyr_transaction_put(transaction, files, key(), lines, COUNT, NULL));
    WANT(TYR_OK, tyr_transaction_append(transaction, files, key(), two, 2, &slot, NULL));
    HOLDS(slot == 0);
    WANT(TYR_OK, tyr_transaction_commit(transaction, NULL, NULL));
    WANT(TYR_OK, tyr_transaction_free(transaction));
    WANT(TYR_OK, tyr_keyspace_read(files, key(), COUNT * SIZE, TYR_END, &content, NULL));
    tyr_bytes end = tyr_content_bytes(content);
    HOLDS(end.size == 8 && memcmp(end.data, "headtail", 8) == 0);
    WANT(TYR_OK, tyr_content_free(content));
}

static int commits_itself(void *context, tyr_transaction *transaction) {
    (void)context;
    WANT(TYR_INVALID, tyr_transaction_commit(transaction, NULL, NULL));
    return 4711;
}

static tyr_transaction *kept;

static int frees_it(void *context, tyr_transaction *transaction) {
    (void)context;
    kept = transaction;
    WANT(TYR_OK, tyr_transaction_create(transaction, files, tyr_text("by a run"), NULL));
    WANT(TYR_OK, tyr_transaction_free(transaction));
    return TYR_OK;
}

static int makes_up_a_status(void *context, tyr_transaction *transaction) {
    (void)context, (void)transaction;
    return -54321;
}

static int makes_up_a_conflict(void *times, tyr_transaction *transaction) {
    (void)transaction;
    return ++*(int *)times == 1 ? TYR_CONFLICT : TYR_OK;
}

static int finds_nothing(void *context, tyr_transaction *transaction) {
    (void)context, (void)transaction;
    return TYR_NOT_FOUND;
}

static tyr_queue *left;

/* An operation that is still under way when the body returns may or may not have ended at once; nothing breaks. */
static int leaves_one_under_way(void *context, tyr_transaction *transaction) {
    static int exists;
    (void)context;
    tyr_async how = {.queue = left};
    WANT(TYR_OK, tyr_transaction_exists(transaction, files, tyr_text("by a run"), &exists, &how));
    return TYR_OK;
}

static void runs(void) {
    tyr_event event;
    size_t count;
    WANT(TYR_OK, tyr_queue_create(&left));
    int ended = tyr_store_run(store, leaves_one_under_way, NULL, NULL);
    HOLDS(ended == TYR_OK || ended == TYR_INVALID);
    WANT(TYR_OK, tyr_queue_wait(left, &event, 1, -1, &count));
    WANT(TYR_OK, tyr_queue_free(left));
    int exists = 0;
    WANT(4711, tyr_store_run(store, commits_itself, NULL, NULL));
    /* Who frees it has rolled it back. */
    tyr_receipt *receipt = (tyr_receipt *)&exists;
    WANT(TYR_OK, tyr_store_run(store, frees_it, NULL, &receipt));
    HOLDS(receipt == NULL);
    WANT(TYR_INVALID, tyr_transaction_create(kept, files, key(), NULL));
    WANT(TYR_OK, tyr_keyspace_exists(files, tyr_text("by a run"), &exists, NULL));
    HOLDS(exists == 0);
    WANT(-54321, tyr_store_run(store, makes_up_a_status, NULL, NULL));
    /* A conflict that its transaction has not met ends the run as another status does. */
    int times = 0;
    WANT(TYR_CONFLICT, tyr_store_run(store, makes_up_a_conflict, &times, NULL));
    HOLDS(times == 1);
    /* The text is not that of what has failed before. */
    WANT(TYR_INVALID, tyr_store_free(NULL));
    char before[200];
    snprintf(before, sizeof before, "%s", tyr_error_message());
    WANT(TYR_NOT_FOUND, tyr_store_run(store, finds_nothing, NULL, NULL));
    HOLDS(strcmp(before, tyr_error_message()) != 0);
}

static void *one_of_many(void *context) {
    (void)context;
    for (int i = 0; i < 200; ++i) {
        tyr_keyspace *own;
        WANT(TYR_OK, tyr_store_keyspace(store, "files", &own));
        tyr_bytes part = tyr_text("y");
        WANT(TYR_OK, tyr_keyspace_append(own, tyr_text("shared"), &part, 1, NULL, NULL));
        WANT(TYR_OK, tyr_keyspace_free(own));
    }
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    tyr_stat stat;
    for (int i = 0; i < 4; ++i) pthread_create(&all[i], NULL, one_of_many, NULL);
    for (int i = 0; i < 4; ++i) pthread_join(all[i], NULL);
    WANT(TYR_OK, tyr_keyspace_stat(files, tyr_text("shared"), &stat, NULL, NULL));
    HOLDS(stat.size == 800);
}

static void child_of_a_fork(void) {
    put("x");
    pid_t child = fork();
    if (child == 0) {
        int exists;
        tyr_store *own;
        /* What the parent has opened is no use; the child is told so. */
        WANT(TYR_UNAVAILABLE, tyr_keyspace_exists(files, key(), &exists, NULL));
        HOLDS(strstr(tyr_error_message(), "fork") != NULL);
        WANT(TYR_UNAVAILABLE, tyr_keyspace_free(files));
        WANT(TYR_UNAVAILABLE, tyr_store_open(place, NULL, &own, NULL));
        _exit(0);
    }
    int status = 1;
    while (waitpid(child, &status, 0) != child) {}
    HOLDS(status == 0);
    int exists = 0;
    WANT(TYR_OK, tyr_keyspace_exists(files, key(), &exists, NULL));
    HOLDS(exists == 1);
}

static volatile sig_atomic_t signals;

static void interrupt(int number) {
    (void)number;
    ++signals;
}

static void interrupted_calls(void) {
    /* Without SA_RESTART, so that every system call that waits is interrupted. */
    struct sigaction action = {.sa_handler = interrupt};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    tyr_bytes part = tyr_text("0123456789");
    uint64_t offset = 0;
    for (int i = 0; i < 100 || (signals < 20 && i < 1000000); ++i) {
        WANT(TYR_OK, tyr_keyspace_append(files, tyr_text("interrupted"), &part, 1, &offset, NULL));
        HOLDS(offset == (uint64_t)i * 10);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    HOLDS(signals >= 20);
}

static void closed_store(void) {
    tyr_queue *queue;
    tyr_async how;
    int exists;
    memset(&how, 0, sizeof how);
    WANT(TYR_OK, tyr_queue_create(&queue));
    how.queue = queue;
    WANT(TYR_INVALID, tyr_store_close((tyr_store *)files, &how));
    WANT(TYR_OK, tyr_store_close(store, &how));
    tyr_event event;
    size_t count;
    WANT(TYR_OK, tyr_queue_wait(queue, &event, 1, -1, &count));
    HOLDS(count == 1 && event.status == TYR_OK);
    WANT(TYR_INVALID, tyr_store_close(store, NULL));
    WANT(TYR_UNAVAILABLE, tyr_keyspace_exists(files, key(), &exists, NULL));
    WANT(TYR_OK, tyr_keyspace_free(files));
    WANT(TYR_OK, tyr_queue_free(queue));
}

int main(int count, char **words) {
    /* What looks for leaks takes all that a parent has for lost in its child. */
    HOLDS(count == 2 || (count == 3 && strcmp(words[2], "without-fork") == 0));
    char path[4096];
    snprintf(path, sizeof path, "%s/store", words[1]);
    place = path;
    tyr_options options = {.segment_size = 1 << 20};
    WANT(TYR_OK, tyr_store_open(path, &options, &store, NULL));
    WANT(TYR_OK, tyr_store_create_keyspace(store, "files", NULL, &files, NULL));
    null_handles();
    dead_handles();
    wrong_handles();
    huge_lengths();
    odd_numbers();
    callbacks();
    callbacks_that_wait();
    queues();
    who_sleeps_is_woken();
    failed_parts();
    runs();
    threads();
    if (count == 2) child_of_a_fork();
    interrupted_calls();
    closed_store();
    puts("every misuse is an error");
    return 0;
}
