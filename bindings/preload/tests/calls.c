/* Makes every call that the preload library stands before, below a directory, and prints what each says. Run below the prefix and in a
 * directory of a disk it prints the same. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <termios.h>
#include <unistd.h>
#include <utime.h>
#include <wchar.h>

static const char *place;

static void say(const char *what, long value) {
    if (value < 0) printf("%s: %s\n", what, strerrorname_np(errno));
    else printf("%s: %ld\n", what, value);
}
/* Of calls whose result is a descriptor or an address: only whether it is one. */
#define GIVES(call) (errno = 0, say(#call, (call) < 0 ? -1 : 0))
#define SAY(call) (errno = 0, say(#call, (long)(call)))

static void shown(const char *what, const char *bytes, long length) {
    printf("%s: %ld \"", what, length);
    for (long at = 0; at < length; at++) printf(bytes[at] >= ' ' && bytes[at] <= '~' ? "%c" : "\\%02x", (unsigned char)bytes[at]);
    printf("\"\n");
}

static void status(const char *what, const struct stat *it) {
    printf("%s: mode %o links %ld size %ld owner %u:%u time %ld\n", what, it->st_mode, S_ISDIR(it->st_mode) ? 0 : (long)it->st_nlink,
           S_ISDIR(it->st_mode) ? 0 : (long)it->st_size, it->st_uid, it->st_gid,
           it->st_mtime > 2000000000 || it->st_mtime < 1000000000 ? (long)it->st_mtime : 0);
}

static void content(void) {
    char buffer[64] = {0};
    int file = open("content", O_RDWR | O_CREAT, 0644);
    SAY(write(file, "hello, world", 12));
    SAY(lseek(file, 0, SEEK_CUR));
    SAY(lseek(file, -5, SEEK_END));
    SAY(read(file, buffer, 64));
    shown("read", buffer, 5);
    SAY(read(file, buffer, 64));
    SAY(pread(file, buffer, 5, 7));
    SAY(pwrite(file, "WORLD", 5, 7));
    SAY(pwrite(file, "far", 3, 20));
    SAY(pread(file, buffer, 64, 0));
    shown("pread", buffer, 23);
    SAY(lseek(file, 0, SEEK_SET));
    struct iovec pieces[3] = {{"ab", 2}, {"", 0}, {"cde", 3}};
    SAY(writev(file, pieces, 3));
    SAY(pwritev(file, pieces, 3, 30));
    char one[4], two[8];
    struct iovec rooms[2] = {{one, 4}, {two, 8}};
    SAY(preadv(file, rooms, 2, 0));
    shown("preadv", two, 8);
    SAY(lseek(file, 1, SEEK_SET));
    SAY(readv(file, rooms, 2));
    shown("readv", one, 4);
    SAY(lseek(file, 0, SEEK_CUR));
    SAY(lseek(file, -1, SEEK_SET));
    SAY(lseek(file, 1000, SEEK_HOLE));
    SAY(lseek(file, 0, 77));
    SAY(pread(file, buffer, 1, -1));
    SAY(ftruncate(file, 4));
    SAY(ftruncate(file, -1));
    SAY(lseek(file, 0, SEEK_END));
    SAY(truncate("content", 6));
    SAY(truncate("missing", 6));
    SAY(fallocate(file, 0, 0, 10));
    SAY(posix_fallocate(file, 0, 12));
    SAY(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1, 2));
    SAY(pread(file, buffer, 64, 0));
    shown("pread", buffer, 12);
    static char much[1 << 20];
    memset(much, 'm', sizeof much);
    SAY(ftruncate(file, 8 << 20));
    SAY(pwrite(file, much, sizeof much, 2 << 20));
    SAY(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (2 << 20) + (256 << 10), 256 << 10));
    SAY(lseek(file, 1 << 20, SEEK_DATA));
    SAY(lseek(file, 2 << 20, SEEK_HOLE));
    SAY(lseek(file, (2 << 20) + (256 << 10), SEEK_DATA));
    SAY(lseek(file, 4 << 20, SEEK_DATA));
    SAY(lseek(file, 8 << 20, SEEK_HOLE));
    SAY(ftruncate(file, 12));
    SAY(fsync(file));
    SAY(fdatasync(file));
    SAY(close(file));
    SAY(close(file));
    SAY(read(file, buffer, 1));
    file = open("content", O_RDONLY);
    SAY(write(file, "x", 1));
    SAY(ftruncate(file, 1));
    close(file);
    file = open("content", O_WRONLY | O_APPEND);
    SAY(read(file, buffer, 1));
    SAY(write(file, "end", 3));
    SAY(lseek(file, 0, SEEK_CUR));
    SAY(pwrite(file, "!", 1, 0));
    close(file);
    file = open("content", O_RDONLY);
    SAY(read(file, buffer, 64));
    shown("appended", buffer, 16);
    close(file);
    GIVES(open("content", O_CREAT | O_EXCL | O_RDWR, 0600));
    GIVES(open("missing", O_RDONLY));
    GIVES(open("content/below", O_RDONLY));
    GIVES(open("content", O_DIRECTORY));
    GIVES(open(".", O_RDWR));
    GIVES(openat(AT_FDCWD, "", O_RDONLY));
    SAY(close(open("content", O_WRONLY | O_TRUNC)));
    SAY(close(creat("created", 0600)));
}

static void descriptors(void) {
    char buffer[16];
    int file = open("doubled", O_RDWR | O_CREAT | O_TRUNC, 0644);
    write(file, "0123456789", 10);
    int other = dup(file);
    SAY(lseek(other, 0, SEEK_CUR));
    lseek(file, 3, SEEK_SET);
    SAY(read(other, buffer, 2));
    shown("dup", buffer, 2);
    SAY(close(file));
    SAY(read(other, buffer, 2));
    SAY(dup2(other, 40));
    SAY(dup3(other, 41, O_CLOEXEC));
    SAY(fcntl(41, F_GETFD));
    SAY(fcntl(40, F_GETFD));
    SAY(fcntl(40, F_DUPFD, 50));
    SAY(fcntl(50, F_GETFL) & (O_ACCMODE | O_APPEND));
    SAY(fcntl(50, F_SETFL, O_APPEND));
    SAY(fcntl(40, F_GETFL) & (O_ACCMODE | O_APPEND));
    SAY(write(other, "+", 1));
    SAY(lseek(50, 0, SEEK_CUR));
    SAY(dup2(other, -1));
    SAY(dup(777));
    SAY(dup2(open("/dev/null", O_RDONLY), 50));
    SAY(read(50, buffer, 1));
    SAY(close_range(40, 41, 0));
    SAY(read(40, buffer, 1));
    SAY(close(other));
    int first = open("doubled", O_RDONLY), second = open("doubled", O_RDONLY);
    SAY(second - first);
    close(first);
    SAY(open("doubled", O_RDONLY) - first);
    SAY(isatty(second));
    close(first);
    close(second);
}

static void statuses(void) {
    struct stat it;
    struct statx more;
    umask(027);
    int file = open("status", O_RDWR | O_CREAT, 0666);
    write(file, "12345", 5);
    SAY(fstat(file, &it));
    status("fstat", &it);
    umask(022);
    ino_t number = it.st_ino;
    dev_t device = it.st_dev;
    SAY(stat("status", &it));
    SAY(it.st_ino == number && it.st_dev == device);
    SAY(lstat("status", &it));
    SAY(fstatat(AT_FDCWD, "status", &it, 0));
    SAY(fstatat(file, "", &it, AT_EMPTY_PATH));
    status("fstatat", &it);
    SAY(statx(AT_FDCWD, "status", 0, STATX_BASIC_STATS, &more));
    printf("statx: mode %o size %ld\n", more.stx_mode, (long)more.stx_size);
    SAY(stat("missing", &it));
    SAY(stat(".", &it));
    status("directory", &it);
    SAY(stat("status/below", &it));
    SAY(stat("status/", &it));
    SAY(access("status", R_OK | W_OK));
    SAY(access("missing", F_OK));
    SAY(access("status", 99));
    SAY(access("missing", 99));
    SAY(faccessat(AT_FDCWD, "status", F_OK, 0));
    SAY(chmod("status", 0604));
    SAY(stat("status", &it));
    status("chmod", &it);
    SAY(fchmod(file, 0640));
    SAY(fchmodat(AT_FDCWD, "status", 0641, 0));
    SAY(chown("status", 12, 34));
    SAY(fchown(file, -1, 35));
    SAY(lchown("status", 13, -1));
    SAY(fchownat(AT_FDCWD, "status", 14, -1, 0));
    SAY(fstat(file, &it));
    status("chown", &it);
    SAY(chmod("status", 06755));
    SAY(chown("status", 15, -1));
    SAY(fstat(file, &it));
    status("given away", &it);
    SAY(fchmod(file, 06745));
    SAY(fchown(file, -1, 36));
    SAY(fstat(file, &it));
    status("given to another group", &it);
    struct timespec times[2] = {{100, 1}, {200, 2}};
    SAY(utimensat(AT_FDCWD, "status", times, 0));
    SAY(stat("status", &it));
    printf("times: %ld.%ld %ld.%ld\n", (long)it.st_atime, it.st_atim.tv_nsec, (long)it.st_mtime, it.st_mtim.tv_nsec);
    times[0].tv_nsec = UTIME_OMIT;
    times[1].tv_sec = 300;
    SAY(futimens(file, times));
    struct timeval rough[2] = {{400, 0}, {500, 0}};
    SAY(stat("status", &it));
    printf("times: %ld %ld\n", (long)it.st_atime, (long)it.st_mtime);
    SAY(utimes("status", rough));
    struct utimbuf old = {600, 700};
    SAY(utime("status", &old));
    SAY(stat("status", &it));
    printf("times: %ld %ld\n", (long)it.st_atime, (long)it.st_mtime);
    struct statfs whole;
    struct statvfs whole_vfs;
    SAY(statfs("status", &whole));
    SAY(fstatfs(file, &whole));
    SAY(statvfs("status", &whole_vfs));
    SAY((long)whole_vfs.f_namemax);
    char value[32];
    SAY(setxattr("status", "user.color", "blue", 4, 0));
    SAY(getxattr("status", "user.color", value, 32));
    SAY(fsetxattr(file, "user.shape", "round", 5, XATTR_CREATE));
    SAY(setxattr("status", "user.shape", "x", 1, XATTR_CREATE));
    SAY(lgetxattr("status", "user.none", value, 32));
    SAY(fgetxattr(file, "user.shape", value, 2));
    SAY(removexattr("status", "user.color"));
    SAY(listxattr("status", value, 32));
    close(file);
}

static int by_name(const void *one, const void *two) { return strcmp(*(char **)one, *(char **)two); }

static void list(DIR *directory) {
    char *names[64];
    int count = 0;
    errno = 0;
    for (struct dirent *entry; (entry = readdir(directory)) && count < 64;) {
        char text[300];
        snprintf(text, sizeof text, "%s %d", entry->d_name, entry->d_type);
        names[count++] = strdup(text);
    }
    printf("entries, then errno %d:", errno);
    qsort(names, count, sizeof *names, by_name);
    for (int at = 0; at < count; at++) printf(" [%s]", names[at]);
    printf("\n");
}

static void names(void) {
    char buffer[PATH_MAX];
    struct stat it;
    SAY(mkdir("dir", 0755));
    SAY(mkdir("dir", 0755));
    SAY(mkdir("none/below", 0755));
    int directory = open("dir", O_RDONLY | O_DIRECTORY);
    SAY(mkdirat(directory, "inner", 0700));
    SAY(close(openat(directory, "file", O_CREAT | O_WRONLY, 0644)));
    SAY(symlinkat("file", directory, "soft"));
    SAY(linkat(directory, "file", directory, "hard", 0));
    SAY(fstatat(directory, "soft", &it, AT_SYMLINK_NOFOLLOW));
    SAY(S_ISLNK(it.st_mode));
    SAY(readlinkat(directory, "soft", buffer, sizeof buffer));
    SAY(readlink("dir/soft", buffer, 2));
    SAY(readlink("dir/file", buffer, 2));
    SAY(fstatat(directory, "hard", &it, 0));
    SAY(it.st_nlink);
    list(opendir("dir"));
    DIR *stream = fdopendir(dup(directory));
    list(stream);
    rewinddir(stream);
    SAY(telldir(stream) >= 0);
    list(stream);
    SAY(fstat(dirfd(stream), &it));
    SAY(closedir(stream));
    SAY(opendir("missing") == NULL ? -1 : 0);
    SAY(opendir("dir/file") == NULL ? -1 : 0);
    SAY(renameat(directory, "hard", AT_FDCWD, "moved"));
    SAY(rename("moved", "dir/other"));
    SAY(rename("missing", "dir/other"));
    SAY(rename("dir", "dir/inner/below"));
    SAY(renameat2(AT_FDCWD, "dir/other", AT_FDCWD, "dir/file", RENAME_NOREPLACE));
    SAY(link("dir/file", "dir/third"));
    SAY(symlink("dir/inner", "short"));
    snprintf(buffer, sizeof buffer, "%s/dir/file", place);
    SAY(symlink(buffer, "long"));
    SAY(stat("long", &it));
    SAY(symlink("loop", "loop"));
    SAY(stat("loop", &it));
    GIVES(open("loop", O_RDONLY | O_NOFOLLOW));
    SAY(rmdir("dir"));
    SAY(unlink("dir"));
    SAY(rmdir("dir/file"));
    SAY(unlinkat(directory, "third", 0));
    SAY(unlinkat(directory, "inner", AT_REMOVEDIR));
    SAY(remove("loop"));
    SAY(unlink("missing"));
    char *real = realpath("dir/../long", NULL);
    printf("realpath: %s\n", real ? real + strlen(place) : strerrorname_np(errno));
    free(real);
    SAY(chdir("dir"));
    printf("getcwd: %s\n", getcwd(buffer, sizeof buffer) + strlen(place));
    SAY(stat("file", &it));
    SAY(stat("../content", &it));
    SAY(fchdir(directory));
    SAY(chdir(".."));
    printf("getcwd: %s\n", getcwd(buffer, sizeof buffer) + strlen(place));
    SAY(chdir("missing"));
    SAY(close(directory));
    int file = open("gone", O_RDWR | O_CREAT, 0644);
    write(file, "still", 5);
    SAY(unlink("gone"));
    SAY(fstat(file, &it));
    SAY(it.st_nlink);
    SAY(pread(file, buffer, 5, 0));
    SAY(close(file));
    char template[] = "temporary-XXXXXX", tree[] = "tree-XXXXXX";
    GIVES(mkstemp(template));
    SAY(access(template, R_OK | W_OK));
    SAY(mkdtemp(tree) == NULL ? -1 : 0);
    SAY(rmdir(tree));
    unlink(template);
    char long_name[300];
    memset(long_name, 'x', 256);
    long_name[256] = 0;
    SAY(mkdir(long_name, 0755));
}

/* A slash after a name says that a directory is meant, and not that a symbolic link is. */
static void slashes(void) {
    struct stat it;
    SAY(symlink("target", "link"));
    SAY(mkdir("link/", 0755));
    SAY(lstat("target", &it));
    SAY(mkdir("target/", 0755));
    SAY(close(open("some", O_CREAT | O_WRONLY, 0644)));
    SAY(lstat("link/", &it));
    SAY(S_ISDIR(it.st_mode));
    SAY(mkdir("link/", 0755));
    SAY(mkdir("some/", 0755));
    SAY(symlink("anywhere", "link/"));
    SAY(link("some", "link/"));
    SAY(rmdir("link/"));
    SAY(rmdir("some/"));
    SAY(unlink("link/"));
    SAY(unlink("some/"));
    SAY(unlink("target/"));
    SAY(unlink("missing/"));
    SAY(rename("link/", "moved"));
    SAY(rename("some/", "moved"));
    SAY(rename("some", "moved/"));
    SAY(rename("some", "link/"));
    SAY(rename("target/", "link/"));
    SAY(renameat2(AT_FDCWD, "some", AT_FDCWD, "link/", RENAME_EXCHANGE));
    SAY(renameat2(AT_FDCWD, "target", AT_FDCWD, "link/", RENAME_EXCHANGE));
    SAY(renameat2(AT_FDCWD, "some", AT_FDCWD, "target/", RENAME_EXCHANGE));
    SAY(renameat2(AT_FDCWD, "some/", AT_FDCWD, "target", RENAME_EXCHANGE));
    SAY(rename("target/", "moved/"));
    SAY(rename("link", "renamed"));
    SAY(rename("moved/", "target/"));
    SAY(stat("renamed/", &it));
    SAY(rmdir("target/"));
    SAY(unlink("renamed"));
    SAY(unlink("some"));
}

/* A directory that is open stays the one it is, wherever what it was opened by leads meanwhile. */
static void opened(void) {
    char buffer[PATH_MAX];
    struct stat it;
    SAY(mkdir("run1", 0755));
    SAY(mkdir("run2", 0755));
    SAY(close(creat("run1/g", 0644)));
    SAY(close(creat("run2/g", 0644)));
    SAY(symlink("run1", "current"));
    int linked = open("current", O_RDONLY | O_DIRECTORY), plain = open("./current", O_RDONLY);
    DIR *listed = opendir("current");
    SAY(symlink("run2", "next"));
    SAY(rename("next", "current"));
    SAY(unlinkat(linked, "g", 0));
    SAY(access("run1/g", F_OK));
    SAY(access("run2/g", F_OK));
    SAY(close(openat(plain, "h", O_CREAT | O_WRONLY, 0644)));
    SAY(fstatat(dirfd(listed), "h", &it, 0));
    SAY(access("run1/h", F_OK));
    SAY(mkdir("run1/sub", 0755));
    int sub = open("run1/sub", O_RDONLY | O_DIRECTORY), above = openat(sub, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    int path = openat(sub, "..", O_PATH);
    SAY(unlinkat(above, "sub", AT_REMOVEDIR));
    SAY(unlinkat(above, "h", 0));
    SAY(fstatat(path, "h", &it, 0));
    SAY(fchdir(above));
    printf("getcwd: %s\n", getcwd(buffer, sizeof buffer) + strlen(place));
    SAY(chdir(".."));
    GIVES(open("current", O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    GIVES(open("run2/g/", O_PATH));
    GIVES(open("run2/g/..", O_PATH));
    int link = open("current", O_PATH | O_NOFOLLOW), followed = open("current/", O_PATH | O_NOFOLLOW);
    SAY(fstat(link, &it));
    SAY(S_ISLNK(it.st_mode));
    SAY(fstatat(followed, "g", &it, 0));
    int all[] = {linked, plain, sub, above, path, link, followed};
    for (int each = 0; each < 7; each++) SAY(close(all[each]));
    SAY(closedir(listed));
}

/* Flags of calls with directories. */
static void flagged(void) {
    struct stat it;
    SAY(close(creat("flagged", 0644)));
    SAY(symlink("flagged", "link"));
    SAY(unlinkat(AT_FDCWD, "flagged", 1 << 20));
    SAY(unlinkat(AT_FDCWD, "flagged", AT_REMOVEDIR | AT_SYMLINK_FOLLOW));
    SAY(access("flagged", F_OK));
    SAY(linkat(AT_FDCWD, "link", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW));
    SAY(linkat(AT_FDCWD, "link", AT_FDCWD, "as-it-is", 0));
    SAY(linkat(AT_FDCWD, "link", AT_FDCWD, "another", 1 << 20));
    SAY(lstat("followed", &it));
    status("followed", &it);
    SAY(lstat("as-it-is", &it));
    SAY(S_ISLNK(it.st_mode));
    SAY(fchmodat(AT_FDCWD, "link", 0600, AT_SYMLINK_NOFOLLOW));
    SAY(lchmod("link", 0600));
    SAY(fchmodat(AT_FDCWD, "flagged", 0640, AT_SYMLINK_NOFOLLOW));
    SAY(fchmodat(AT_FDCWD, "flagged", 0600, 1 << 20));
    SAY(stat("link", &it));
    status("link", &it);
}

static void streams(void) {
    char line[64];
    FILE *file = fopen("stream", "w+");
    SAY(fprintf(file, "line %d\nline %d\n", 1, 2));
    rewind(file);
    printf("fgets: %s", fgets(line, sizeof line, file));
    SAY(ftell(file));
    SAY(fseek(file, -2, SEEK_END));
    SAY(fgetc(file));
    SAY(fileno(file) > 2);
    struct stat it;
    SAY(fstat(fileno(file), &it));
    SAY(it.st_size);
    SAY(fclose(file));
    file = fopen("stream", "a");
    SAY(ftell(file));
    SAY(fputs("more\n", file) >= 0);
    SAY(ftell(file));
    SAY(fclose(file));
    file = fopen("stream", "a+");
    SAY(ftell(file));
    SAY(fgetc(file));
    SAY(fclose(file));
    file = fdopen(open("stream", O_WRONLY), "a");
    SAY(ftell(file));
    SAY(fclose(file));
    file = fdopen(open("stream", O_WRONLY | O_APPEND), "a");
    SAY(ftell(file));
    SAY(fclose(file));
    SAY(fopen("stream", "wx") == NULL ? -1 : 0);
    SAY(fopen("missing", "r") == NULL ? -1 : 0);
    file = fdopen(open("stream", O_RDONLY), "r");
    char all[64];
    size_t length = fread(all, 1, sizeof all, file);
    shown("fread", all, length);
    SAY(feof(file) != 0);
    SAY(fclose(file));
    SAY(fdopen(999, "r") == NULL ? -1 : 0);
    fflush(stdout);
    int kept = dup(1), out = open("out", O_RDWR | O_CREAT | O_TRUNC, 0644);
    dup2(out, 1);
    printf("printed into a file\n");
    fflush(stdout);
    dup2(kept, 1);
    length = pread(out, all, sizeof all, 0);
    shown("redirected", all, length);
    close(out);
    close(kept);
}

static void list_to(int file, const char *format, ...) {
    va_list list;
    va_start(list, format);
    SAY(vdprintf(file, format, list));
    va_end(list);
}

/* Formats to descriptors, and what else is asked of them. */
static void printed(void) {
    char bytes[128];
    int file = open("printed", O_RDWR | O_CREAT | O_TRUNC, 0644), left = 0, no = 0;
    SAY(dprintf(file, "%d %s %.2f %d %d %d %d %d %.1f\n", 1, "two", 3.25, 4, 5, 6, 7, 8, 9.5));
    list_to(file, "%s %.1f\n", "list", 1.5);
    SAY(dprintf(file, "%s", ""));
    FILE *wide = fopen("wide", "w");
    SAY(fwprintf(wide, L"%d %ls %.2f %d %d %d %d %.1f\n", 1, L"two", 3.25, 4, 5, 6, 7, 8.5));
    SAY(fclose(wide));
    struct iovec piece = {"end", 3};
    SAY(pwritev2(file, &piece, 1, 0, RWF_APPEND));
    SAY(lseek(file, 0, SEEK_CUR));
    SAY(lseek(file, 2, SEEK_SET));
    SAY(pwritev2(file, &piece, 1, -1, RWF_APPEND | RWF_DSYNC));
    SAY(lseek(file, 0, SEEK_CUR));
    SAY(pwritev2(file, &piece, 1, 0, 1 << 30));
    SAY(preadv2(file, &piece, 1, 0, 1 << 30));
    SAY(lseek(file, 5, SEEK_SET));
    SAY(ioctl(file, FIONREAD, &left));
    SAY(left);
    SAY(ioctl(file, FIONBIO, &no));
    SAY(ioctl(file, TCGETS, bytes));
    long length = pread(file, bytes, sizeof bytes, 0);
    shown("printed", bytes, length);
    close(file);
    SAY(dprintf(file, "closed"));
    file = open("wide", O_RDONLY);
    SAY(dprintf(file, "to be read only"));
    shown("wide", bytes, read(file, bytes, sizeof bytes));
    close(file);
}

/* Directories by the calls that nobody should use any more, and what is the same in all of them. */
static void bygone(void) {
    char path[PATH_MAX];
    SAY(mkdir("bygone", 0755));
    SAY(close(creat("bygone/one", 0644)));
    struct dirent entry, *next;
    long names = 0, result;
    DIR *directory = opendir("bygone");
    while ((result = readdir_r(directory, &entry, &next)) == 0 && next) names += next == &entry ? strlen(entry.d_name) : 100;
    SAY(result);
    SAY(names);
    SAY(closedir(directory));
    SAY(chdir("bygone"));
    /* Named so, as the linker warns of it otherwise. */
    char *(*getwd)(char *) = dlsym(RTLD_DEFAULT, "getwd");
    SAY(getwd(path) == path && strcmp(path + strlen(path) - 7, "/bygone") == 0);
    SAY(chdir(".."));
    SAY(pathconf("bygone", _PC_NAME_MAX));
    SAY(pathconf("bygone/one", _PC_PATH_MAX));
    SAY(pathconf("missing", _PC_NAME_MAX));
    fflush(stdout);
    int state;
    if (fork() == 0) {
        /* The child tells by a file, as it has nobody to talk to. */
        int told = open("told", O_CREAT | O_RDWR | O_TRUNC, 0644);
        int pipes[2];
        pipe(pipes);
        if (fork() == 0) {
            close(pipes[0]);
            int failed = daemon(0, 0);
            char where[PATH_MAX] = "nowhere";
            getcwd(where, sizeof where);
            printf("to nobody\n");
            fflush(stdout);
            dprintf(told, "%d %s", failed, where);
            _exit(0);
        }
        close(pipes[1]);
        wait(&state);
        read(pipes[0], path, 1);
        _exit(state);
    }
    wait(&state);
    SAY(state);
    int told = open("told", O_RDONLY);
    shown("daemon", path, read(told, path, sizeof path));
    close(told);
}

static void wide_list(FILE *file, const wchar_t *format, ...) {
    va_list list;
    va_start(list, format);
    SAY(vfwprintf(file, format, list));
    va_end(list);
}

static void wide(void) {
    wchar_t line[32];
    char bytes[64];
    FILE *file = fopen("wide", "w+");
    SAY(fwide(file, 0));
    SAY(fwide(file, 1) > 0);
    SAY(fputws(L"T\u00fdr\n", file) >= 0);
    SAY(fputwc(L'\u20ac', file));
    SAY(putwc(L'\n', file));
    wide_list(file, L"%ls %d %s\n", L"\u00e9", 7, "caf\u00e9");
    rewind(file);
    SAY(fgetws(line, 32, file) == line);
    SAY(wcscmp(line, L"T\u00fdr\n") == 0);
    SAY(fgetwc(file));
    SAY(ungetwc(L'\u20ac', file));
    SAY(getwc(file));
    SAY(fgetws(line, 32, file) == line && wcscmp(line, L"\n") == 0);
    SAY(fgetws(line, 4, file) == line && wcscmp(line, L"\u00e9 7") == 0);
    SAY(fgetws(line, 32, file) == line && wcscmp(line, L" caf\u00e9\n") == 0);
    SAY(fgetws(line, 32, file) == NULL);
    SAY(feof(file) != 0);
    SAY(ferror(file) != 0);
    SAY(getwc(file) == WEOF);
    SAY(ungetwc(WEOF, file) == WEOF);
    SAY(ferror(file) != 0);
    SAY(fwide(file, 0) > 0);
    SAY(fclose(file));
    int out = open("wide", O_RDWR);
    long length = read(out, bytes, sizeof bytes);
    shown("wide", bytes, length);
    SAY(pwrite(out, "ok\xff", 3, 0));
    file = fdopen(out, "r");
    lseek(out, 0, SEEK_SET);
    SAY(fgetwc(file));
    SAY(fgetws(line, 32, file) == NULL ? -1 : 0);
    SAY(ferror(file) != 0);
    SAY(fclose(file));
}

/* A standard stream goes from file to file. */
static void reopened(void) {
    char bytes[64];
    fflush(stdout);
    int state, kept = dup(1);
    if (fork() == 0) {
        if (!freopen("first", "w", stdout)) _exit(1);
        printf("one\n");
        if (!freopen("/dev/null", "w", stdout)) _exit(2);
        printf("two\n");
        if (!freopen("second", "w", stdout)) _exit(3);
        printf("three\n");
        if (!freopen("third", "a", stdout)) _exit(4);
        printf("four\n");
        if (!freopen("first", "r", stdin) || getchar() != 'o') _exit(5);
        if (!freopen(NULL, "r", stdin) || getchar() != 'o') _exit(6);
        if (!freopen("second", "r", stdin) || getchar() != 't') _exit(7);
        if (!freopen("/dev/null", "r", stdin) || getchar() != EOF) _exit(8);
        if (freopen("missing", "r", stdin)) _exit(9);
        exit(0);
    }
    wait(&state);
    SAY(WIFEXITED(state) ? WEXITSTATUS(state) : -1);
    for (int each = 0; each < 3; each++) {
        int file = open((const char *[]){"first", "second", "third"}[each], O_RDONLY);
        shown("reopened", bytes, read(file, bytes, sizeof bytes));
        close(file);
    }
    FILE *file = fopen("first", "w");
    fputs("before\n", file);
    SAY(freopen("second", "w", file) == file);
    fputs("after\n", file);
    SAY(freopen(NULL, "w", file) == file);
    fputs("again\n", file);
    SAY(freopen("/dev/null", "w", file) == file);
    fputs("nowhere\n", file);
    SAY(freopen("third", "w", file) == file);
    fputs("there\n", file);
    SAY(fclose(file));
    for (int each = 0; each < 3; each++) {
        int file = open((const char *[]){"first", "second", "third"}[each], O_RDONLY);
        shown("reopened", bytes, read(file, bytes, sizeof bytes));
        close(file);
    }
    close(kept);
}

static void copies(void) {
    char buffer[64];
    int from = open("stream", O_RDONLY), to = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0644);
    off_t at = 2, there = 4;
    SAY(copy_file_range(from, &at, to, &there, 5, 0));
    SAY(at * 100 + there);
    SAY(copy_file_range(from, NULL, to, NULL, 1000, 0));
    SAY(lseek(from, 0, SEEK_CUR) * 100 + lseek(to, 0, SEEK_CUR));
    SAY(sendfile(to, from, NULL, 10));
    at = 0;
    SAY(sendfile(to, from, &at, 3));
    SAY(pread(to, buffer, sizeof buffer, 0));
    at = 0, there = 2;
    SAY(copy_file_range(to, &at, to, &there, 5, 0));
    SAY(copy_file_range(to, &there, to, &at, 5, 0));
    there = 100;
    SAY(copy_file_range(to, &at, to, &there, 5, 0));
    at = 1000, there = 1001;
    SAY(copy_file_range(to, &at, to, &there, 5, 0));
    /* As much as there was, also if the copy makes the file longer. */
    int own = open("copied within", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(own, "0123456789", 10));
    at = 5, there = 100;
    SAY(copy_file_range(own, &at, own, &there, 50, 0));
    SAY(at * 1000 + there);
    at = 200, there = 0;
    SAY(copy_file_range(own, &at, own, &there, 50, 0));
    SAY(lseek(own, 0, SEEK_END));
    close(own);
    int appended = open("copy", O_WRONLY | O_APPEND);
    at = 0;
    SAY(copy_file_range(from, &at, appended, NULL, 3, 0));
    SAY(sendfile(appended, from, &at, 3));
    SAY(lseek(appended, 0, SEEK_END));
    SAY(close(appended));
    int pipes[2];
    pipe(pipes);
    at = 0;
    SAY(sendfile(pipes[1], from, &at, 6));
    SAY(read(pipes[0], buffer, sizeof buffer));
    shown("through a pipe", buffer, 6);
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, to, 0);
    shown("mapped", mapped, 8);
    mapped[0] = 'M';
    SAY(pread(to, buffer, 1, 0));
    SAY(buffer[0] == 'M');
    SAY(munmap(mapped, 4096));
    SAY(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, to, 5) == MAP_FAILED ? -1 : 0);
    // What is shared with who may only read does not become writable later.
    int shown_only = open("copy", O_RDONLY);
    char *seen = mmap(NULL, 4096, PROT_READ, MAP_SHARED, shown_only, 0);
    close(shown_only);
    shown("shared", seen, 8);
    SAY(seen[4095]);
    SAY(mprotect(seen, 4096, PROT_READ | PROT_WRITE));
    SAY(mprotect(seen, 4096, PROT_NONE));
    SAY(mprotect(seen, 4096, PROT_WRITE));
    SAY(munmap(seen, 4096));
    close(from);
    close(to);
}

static void locks(void) {
    int one = open("locked", O_RDWR | O_CREAT, 0644), two = open("locked", O_RDWR);
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};
    SAY(fcntl(one, F_SETLK, &lock));
    SAY(fcntl(two, F_SETLK, &lock));
    lock.l_type = F_RDLCK;
    lock.l_pid = 0;
    SAY(fcntl(two, F_OFD_GETLK, &lock));
    printf("in the way: %d from %ld, %ld bytes\n", lock.l_type, (long)lock.l_start, (long)lock.l_len);
    SAY(fcntl(two, F_OFD_SETLK, &lock));
    lock.l_type = F_UNLCK;
    SAY(fcntl(one, F_SETLK, &lock));
    lock.l_type = F_WRLCK;
    lock.l_pid = 0;
    SAY(fcntl(two, F_OFD_SETLK, &lock));
    lock.l_type = F_UNLCK;
    SAY(fcntl(two, F_OFD_SETLK, &lock));
    SAY(flock(one, LOCK_EX));
    SAY(flock(two, LOCK_EX | LOCK_NB));
    SAY(flock(one, LOCK_UN));
    SAY(flock(two, LOCK_SH | LOCK_NB));
    SAY(lockf(one, F_TLOCK, 3));
    SAY(lockf(one, F_ULOCK, 3));
    close(one);
    close(two);
}

static int unlocked, cancelled;

static void *waiter(void *file) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    while (!__atomic_load_n(&cancelled, __ATOMIC_SEQ_CST)) sched_yield();
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    fcntl(*(int *)file, F_OFD_SETLKW, &lock);
    pthread_testcancel();
    return NULL;
}

static void *reader(void *file) {
    char byte;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    while (!__atomic_load_n(&cancelled, __ATOMIC_SEQ_CST)) sched_yield();
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    pread(*(int *)file, &byte, 1, 0);
    return NULL;
}

static void cancel(void *(*routine)(void *), int *file) {
    pthread_t thread;
    void *result;
    __atomic_store_n(&cancelled, 0, __ATOMIC_SEQ_CST);
    SAY(pthread_create(&thread, NULL, routine, file));
    SAY(pthread_cancel(thread));
    __atomic_store_n(&cancelled, 1, __ATOMIC_SEQ_CST);
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    SAY(fcntl(unlocked, F_OFD_SETLK, &lock));
    SAY(pthread_join(thread, &result));
    SAY(result == PTHREAD_CANCELED);
}

static sigjmp_buf back;
static int pipes[2];

static void jump(int number) {
    siglongjmp(back, 1);
}

static void pass(int number) {
}

static void tell(int number) {
    write(pipes[1], "x", 1);
}

/* Threads that are cancelled, and signals whose handlers jump away or have the call go on. */
static void interrupted(void) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int one = open("interrupted", O_RDWR | O_CREAT, 0644), two = open("interrupted", O_RDWR), state;
    write(one, "x", 1);
    SAY(fcntl(one, F_OFD_SETLK, &lock));
    unlocked = one;
    cancel(waiter, &two);
    cancel(reader, &two);
    close(one);
    close(two);

    signal(SIGSEGV, jump);
    one = open("interrupted", O_RDWR);
    if (sigsetjmp(back, 1) == 0) pread(one, (void *)8, 1, 0);
    SAY(access("interrupted", F_OK));
    signal(SIGSEGV, SIG_DFL);

    int ready[2];
    char byte;
    pipe(pipes);
    pipe(ready);
    fflush(stdout);
    if (fork() == 0) {
        two = open("interrupted", O_RDWR);
        int failed = fcntl(two, F_SETLK, &lock);
        write(ready[1], "x", 1);
        read(pipes[0], &byte, 1);
        _exit(failed);
    }
    read(ready[0], &byte, 1);
    struct itimerval often = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
    struct sigaction ends = {.sa_handler = pass}, goes_on = {.sa_handler = tell, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &ends, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    SAY(fcntl(one, F_SETLKW, &lock));
    sigaction(SIGALRM, &goes_on, NULL);
    SAY(fcntl(one, F_SETLKW, &lock));
    setitimer(ITIMER_REAL, &never, NULL);
    wait(&state);
    SAY(state);
    close(one);
}

/* What somebody else changes loses the rights of its owner. */
static void strangers(void) {
    static const mode_t modes[] = {06777, 02767};
    char what[64];
    struct stat it;
    umask(0);
    close(open("privileged", O_RDWR | O_CREAT, 0644));
    SAY(mkdir("group", 0777));
    SAY(chown("group", -1, 7));
    SAY(chmod("group", 02777));
    for (int mode = 0; mode < 2; mode++) {
        for (int way = 0; way < 5; way++) {
            SAY(chmod("privileged", modes[mode]));
            SAY(seteuid(65534));
            int file = open("privileged", O_RDWR | (way == 0 ? O_TRUNC : 0));
            if (way == 1) SAY(write(file, "other", 5));
            if (way == 2) SAY(ftruncate(file, 3));
            if (way == 3) SAY(truncate("privileged", 2));
            if (way == 4) SAY(fallocate(file, 0, 0, 4096));
            close(file);
            SAY(seteuid(0));
            stat("privileged", &it);
            snprintf(what, sizeof what, "changed in way %d", way);
            status(what, &it);
        }
    }
    SAY(seteuid(65534));
    GIVES(open("group/own", O_CREAT | O_WRONLY, 06775));
    SAY(seteuid(0));
    stat("group/own", &it);
    status("made in a group", &it);
    SAY(chmod("privileged", 06755));
    GIVES(open("privileged", O_WRONLY | O_TRUNC));
    stat("privileged", &it);
    status("emptied by its owner", &it);
    umask(022);
}

static void children(void) {
    char buffer[16] = {0};
    int file = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0644), state;
    write(file, "abcdef", 6);
    lseek(file, 0, SEEK_SET);
    fflush(stdout);
    if (fork() == 0) {
        long length = read(file, buffer, 3);
        pwrite(file, "child", 5, 10);
        int own = open("child", O_CREAT | O_WRONLY, 0644);
        _exit(length == 3 && memcmp(buffer, "abc", 3) == 0 && write(own, "made", 4) == 4 ? 0 : 1);
    }
    wait(&state);
    SAY(state);
    SAY(lseek(file, 0, SEEK_CUR));
    SAY(read(file, buffer, 3));
    shown("after the child", buffer, 3);
    SAY(lseek(file, 0, SEEK_END));
    SAY(access("child", F_OK));
    lseek(file, 0, SEEK_END);
    if (fork() == 0) {
        dup2(file, 1);
        execl("/bin/echo", "echo", "from echo", NULL);
        _exit(1);
    }
    wait(&state);
    SAY(state);
    SAY(pread(file, buffer, 16, 15));
    shown("from a program", buffer, 10);
    close(file);
}

int main(int count, char **arguments) {
    if (count != 2 || chdir(arguments[1]) < 0) return 2;
    place = arguments[1];
    setlocale(LC_ALL, "C.UTF-8");
    content();
    descriptors();
    statuses();
    names();
    slashes();
    opened();
    flagged();
    streams();
    wide();
    reopened();
    printed();
    bygone();
    copies();
    locks();
    interrupted();
    strangers();
    children();
    return 0;
}
