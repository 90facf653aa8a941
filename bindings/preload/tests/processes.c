/* What programs do with descriptors, streams, and programs of their own: processes WHAT FILE. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define TRY(name, call) (printf(#name " %d ", call), printf("%s\n", strerrorname_np(errno)))

/* The stream of a standard descriptor is closed, and the next file has its number. */
static int closed(const char *path) {
    char line[100];
    if (!fgets(line, sizeof line, stdin) || fclose(stdin)) return 1;
    for (int size = 16; size < 2048; size += 16)
        for (int turn = 0; turn < 20; turn++) memset(malloc(size), 0x5a, size);
    int file = open(path, O_RDONLY);
    long length = read(file, line, 5);
    printf("%d %ld %.5s\n", file, length, line);
    return 0;
}

/* A program that is not there leaves everything as it is. */
static int missing(const char *path) {
    char buffer[9] = {0}, gone[4096];
    int locked = open(path, O_RDWR | O_CREAT, 0644), state;
    struct flock lock = {.l_type = F_WRLCK};
    printf("lock %d\n", fcntl(locked, F_SETLK, &lock));
    snprintf(gone, sizeof gone, "%s.gone", path);
    int file = open(gone, O_RDWR | O_CREAT, 0644);
    unlink(gone);
    write(file, "temp", 4);
    char *arguments[] = {"missing", NULL};
    TRY(execv, execv("/missing", arguments));
    TRY(execv, execv("/usr", arguments));
    TRY(execve, execve("/etc/passwd", arguments, environ));
    TRY(execvp, execvp("no-such-program", arguments));
    TRY(execl, execl("/missing", "missing", NULL));
    TRY(execlp, execlp("no-such-program", "missing", NULL));
    TRY(execle, execle("/missing", "missing", NULL, environ));
    printf("pread %ld %s\n", (long)pread(file, buffer, 4, 0), buffer);
    fflush(stdout);
    if (fork() == 0) {
        int other = open(path, O_RDWR);
        printf("other %d\n", fcntl(other, F_SETLK, &lock));
        fflush(stdout);
        _exit(0);
    }
    wait(&state);
    return state;
}

/* Becomes a program that takes a lock that this one has had, and prints its arguments. */
static int becomes(const char *how, const char *path) {
    static const char script[] = "import fcntl, os, sys\n"
                                 "fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
                                 "print(*sys.argv[2:], os.environ.get('GIVEN'))";
    struct flock lock = {.l_type = F_WRLCK};
    if (fcntl(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644), F_SETLK, &lock)) return 1;
    char preload[4096], mount[4096];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", getenv("LD_PRELOAD"));
    snprintf(mount, sizeof mount, "TYR_MOUNT=%s", getenv("TYR_MOUNT"));
    char *environment[] = {preload, mount, "GIVEN=given", NULL};
    if (!strcmp(how, "execl")) execl("/usr/bin/python3", "python3", "-c", script, path, "a", "", "c", "d", "e", "f", "g", NULL);
    if (!strcmp(how, "execlp")) execlp("python3", "python3", "-c", script, path, "a", NULL);
    if (!strcmp(how, "execle")) execle("/usr/bin/python3", "python3", "-c", script, path, "a", "b", "c", "d", NULL, environment);
    return 1;
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    if (!strcmp(arguments[1], "closed")) return closed(arguments[2]);
    if (!strcmp(arguments[1], "missing")) return missing(arguments[2]);
    return becomes(arguments[1], arguments[2]);
}
