/* Reads and writes without waiting, and prints what each request says: requests DIRECTORY OTHER. Run below the prefix and in a directory of a
 * disk it prints the same; the other directory is always on a disk. */
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say(const char *what, long value) {
    if (value < 0) printf("%s: %s\n", what, strerrorname_np(errno));
    else printf("%s: %ld\n", what, value);
}
#define SAY(call) (errno = 0, say(#call, (long)(call)))

static struct aiocb asked(int file, void *buffer, long length, off_t offset) {
    struct aiocb control = {.aio_fildes = file, .aio_buf = buffer, .aio_nbytes = length, .aio_offset = offset};
    control.aio_sigevent.sigev_notify = SIGEV_NONE;
    return control;
}

/* Waits, and prints the outcome. */
static void ended(const char *what, struct aiocb *control) {
    const struct aiocb *list[] = {control};
    while (aio_error(control) == EINPROGRESS) aio_suspend(list, 1, NULL);
    int error = aio_error(control);
    printf("%s: %s %ld\n", what, error ? strerrorname_np(error) : "done", (long)aio_return(control));
}

static void simple(int file) {
    char buffer[32] = {0};
    struct aiocb control = asked(file, "hello, world", 12, 3);
    SAY(aio_write(&control));
    ended("aio_write", &control);
    control = asked(file, buffer, sizeof buffer, 0);
    SAY(aio_read(&control));
    ended("aio_read", &control);
    printf("read: %s\n", buffer + 3);
    SAY(lseek(file, 0, SEEK_CUR));
    SAY(aio_fsync(O_SYNC, &control));
    ended("aio_fsync", &control);
    SAY(aio_fsync(O_DSYNC, &control));
    ended("aio_fsync", &control);
    SAY(aio_fsync(O_RDONLY, &control));
    control = asked(file, buffer, 1, -1);
    SAY(aio_read(&control));
    ended("before the beginning", &control);
    control.aio_reqprio = 77;
    SAY(aio_read(&control));
    control = asked(file, buffer, 32, 100);
    SAY(aio_read64((struct aiocb64 *)&control));
    ended("after the end", &control);
    SAY(aio_cancel(file, &control) == AIO_ALLDONE);
    SAY(aio_cancel(file, NULL) == AIO_ALLDONE);
}

static void refused(void) {
    char byte = 'x';
    int reads = open("asked", O_RDONLY), writes = open("asked", O_WRONLY), appends = open("asked", O_WRONLY | O_APPEND);
    struct aiocb control = asked(reads, &byte, 1, 0);
    SAY(aio_write(&control));
    ended("what is only read is written", &control);
    control = asked(writes, &byte, 1, 0);
    SAY(aio_read(&control));
    ended("what is only written is read", &control);
    control = asked(appends, "end", 3, 0);
    SAY(aio_write(&control));
    ended("appended", &control);
    SAY(lseek(appends, 0, SEEK_END));
    close(reads), close(writes), close(appends);
}

static void lists(int file, int other) {
    char read[2][8] = {{0}};
    struct aiocb one = asked(file, "mine", 4, 0), two = asked(other, "theirs", 6, 0), none = asked(file, NULL, 1, 0);
    one.aio_lio_opcode = two.aio_lio_opcode = LIO_WRITE;
    none.aio_lio_opcode = LIO_NOP;
    struct aiocb *both[] = {&one, NULL, &two, &none};
    SAY(lio_listio(LIO_WAIT, both, 4, NULL));
    ended("mine", &one);
    ended("theirs", &two);
    one = asked(file, read[0], 4, 0), two = asked(other, read[1], 6, 0);
    SAY(lio_listio64(LIO_NOWAIT, (struct aiocb64 **)both, 4, NULL));
    const struct aiocb *waited[] = {&two, NULL, &one};
    SAY(aio_suspend(waited, 3, &(struct timespec){10, 0}));
    ended("theirs", &two);
    ended("mine", &one);
    printf("read: %s %s\n", read[0], read[1]);
    int writes = open("asked", O_WRONLY);
    one = asked(writes, read[0], 4, 0), two = asked(other, read[1], 6, 0);
    SAY(lio_listio(LIO_WAIT, both, 4, NULL));
    ended("fails", &one);
    ended("theirs", &two);
    SAY(lio_listio(77, both, 4, NULL));
    close(writes);
}

static sem_t told;
static volatile int number, code, error;
static struct aiocb *volatile from;

static void handler(int signal, siginfo_t *details, void *context) {
    number++, code = details->si_code, from = details->si_value.sival_ptr;
    error = from ? aio_error(from) : access("asked", F_OK);
    sem_post(&told);
}

static void function(union sigval value) {
    from = value.sival_ptr;
    error = access("asked", F_OK);
    sem_post(&told);
}

static void wait_told(void) {
    while (sem_wait(&told)) {}
}

static void notices(int file, int other) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sem_init(&told, 0, 0);
    sigaction(SIGUSR1, &action, NULL);
    struct aiocb one = asked(file, "signal", 6, 0), two = asked(other, "other", 5, 0), *both[] = {&one, &two};
    struct sigevent signals = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1}, calls = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = function};
    one.aio_sigevent = signals;
    one.aio_sigevent.sigev_value.sival_ptr = &one;
    SAY(aio_write(&one));
    wait_told();
    printf("signal: %d, by a request %d, this one %d, %d\n", number, code == SI_ASYNCIO, from == &one, error);
    ended("told by a signal", &one);
    one.aio_sigevent = calls;
    one.aio_sigevent.sigev_value.sival_ptr = &one;
    SAY(aio_read(&(struct aiocb){.aio_fildes = file, .aio_buf = (char[8]){0}, .aio_nbytes = 8, .aio_sigevent = one.aio_sigevent}));
    wait_told();
    printf("function: this one %d, %d\n", from == &one, error);
    /* Lists of requests of both kinds, and of one. */
    one = asked(file, "list", 4, 0);
    one.aio_lio_opcode = two.aio_lio_opcode = LIO_WRITE;
    for (int count = 1; count <= 2; count++) {
        SAY(lio_listio(LIO_NOWAIT, both, count, &signals));
        wait_told();
        printf("list: %d %d\n", number, error);
        ended("in a list", &one);
        SAY(lio_listio(LIO_NOWAIT, both, count, &calls));
        wait_told();
        printf("list: %d %d\n", number, error);
        ended("in a list", &one);
    }
    ended("the other", &two);
}

static void *writer(void *given) {
    static char block[2][4][1000];
    struct aiocb controls[4];
    int file = open("many", O_RDWR | O_CREAT, 0644), which = given != NULL;
    for (int each = 0; each < 4; each++) {
        memset(block[which][each], '0' + which * 4 + each, 1000);
        controls[each] = asked(file, block[which][each], 1000, (which * 4 + each) * 1000);
        if (aio_write(&controls[each])) abort();
    }
    for (int each = 0; each < 4; each++) {
        const struct aiocb *list[] = {&controls[each]};
        while (aio_error(list[0]) == EINPROGRESS) aio_suspend(list, 1, NULL);
        if (aio_return(&controls[each]) != 1000) abort();
    }
    close(file);
    return NULL;
}

static void threads(void) {
    pthread_t two[2];
    char byte[8];
    pthread_create(&two[0], NULL, writer, NULL);
    pthread_create(&two[1], NULL, writer, "x");
    pthread_join(two[0], NULL), pthread_join(two[1], NULL);
    int file = open("many", O_RDONLY);
    for (int each = 0; each < 8; each++) pread(file, byte + each, 1, each * 1000 + 999);
    printf("threads: %.8s %ld\n", byte, (long)lseek(file, 0, SEEK_END));
    close(file);
}

int main(int count, char **arguments) {
    char path[4096];
    if (count != 3 || chdir(arguments[1]) < 0) return 2;
    alarm(60);
    snprintf(path, sizeof path, "%s/other", arguments[2]);
    int file = open("asked", O_RDWR | O_CREAT | O_TRUNC, 0644), other = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    simple(file);
    refused();
    lists(file, other);
    notices(file, other);
    threads();
    return 0;
}
