/* Has the C library look through directories, and prints what it finds: searches DIRECTORY OTHER. Run below the prefix and in a directory of a
 * disk it prints the same; the other directory is always on a disk. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static void scanned(const char *what, int (*scan)(const char *, struct dirent ***), const char *path) {
    struct dirent **names = NULL;
    errno = 0;
    int count = scan(path, &names);
    printf("%s %s: %d %s:", what, path, count, strerrorname_np(errno));
    for (int each = 0; each < count; each++) {
        printf(" %s %d", names[each]->d_name, names[each]->d_type);
        free(names[each]);
    }
    if (count >= 0) free(names);
    printf("\n");
}

static int all(const char *path, struct dirent ***names) { return scandir(path, names, NULL, alphasort); }
static int visible(const char *path, struct dirent ***names) { return scandir64(path, (struct dirent64 ***)names, (void *)is_visible, alphasort64); }
static int backwards(const struct dirent **one, const struct dirent **two) { return -strcmp((*one)->d_name, (*two)->d_name); }
static int from;
static int from_directory(const char *path, struct dirent ***names) { return scandirat(from, path, names, is_visible, backwards); }

static int failing(const char *path, int number) {
    printf("fails: %s %s\n", path, strerrorname_np(number));
    return 0;
}

static void found(const char *pattern, int flags) {
    glob_t list = {0};
    int result = glob(pattern, flags, failing, &list);
    printf("%s: %d %lu, flags %d:", pattern, result, (unsigned long)list.gl_pathc, list.gl_flags);
    for (size_t each = 0; each < list.gl_pathc; each++) printf(" %s", list.gl_pathv[each]);
    printf("\n");
    globfree(&list);
}

/* Whole paths, of which only what lies below the directory is printed. */
static void found_whole(const char *directory, const char *other, const char *pattern) {
    char whole[9000];
    glob_t list = {0};
    snprintf(whole, sizeof whole, "{%s,%s}/%s", directory, other, pattern);
    int result = glob64(whole, GLOB_BRACE, NULL, (glob64_t *)&list);
    result += glob64("/etc/pass*d", GLOB_APPEND, NULL, (glob64_t *)&list);
    printf("%s: %d %lu:", pattern, result, (unsigned long)list.gl_pathc);
    for (size_t each = 0; each < list.gl_pathc; each++) printf(" %s", strrchr(list.gl_pathv[each], '/'));
    printf("\n");
    globfree(&list);
}

int main(int count, char **arguments) {
    char path[4096];
    if (count != 3 || chdir(arguments[1]) < 0) return 2;
    for (int each = 0; each < 40; each++) {
        snprintf(path, sizeof path, "part-%02d", each);
        close(creat(path, 0644));
    }
    mkdir("sub", 0755), mkdir("sub/deep", 0755), mkdir("sub/empty", 0755), mkdir("closed", 0);
    close(creat("sub/one.c", 0644)), close(creat("sub/deep/two.c", 0644)), close(creat("sub/.hidden", 0644));
    symlink("sub/one.c", "link"), symlink("nowhere", "broken"), symlink("sub", "there");
    snprintf(path, sizeof path, "%s/elsewhere.c", arguments[2]);
    close(creat(path, 0644));
    scanned("all", all, ".");
    scanned("all", all, "sub");
    scanned("all", all, "sub/empty");
    scanned("visible", visible, "sub");
    scanned("visible", visible, "there/deep");
    scanned("visible", visible, "missing");
    scanned("visible", visible, "link");
    from = open("sub", O_RDONLY | O_DIRECTORY);
    scanned("from a directory", from_directory, ".");
    scanned("from a directory", from_directory, "../sub/deep");
    scanned("from a directory", from_directory, "none");
    found("part-?[05]", 0);
    found("*", GLOB_MARK);
    found("*/*.c", 0);
    found("sub/*/*.c", 0);
    found("{sub,there}/{one,two}.c", GLOB_BRACE);
    found("sub/.*", 0);
    found("b*", 0);
    found("none*", 0);
    found("none*", GLOB_NOCHECK);
    found("link", 0);
    found("s*", GLOB_ONLYDIR | GLOB_MARK);
    found("link/*", GLOB_ERR);
    found_whole(arguments[1], arguments[2], "{sub,.}/*.c");
    snprintf(path, sizeof path, "%s/elsewhere.c", arguments[2]);
    return unlink(path);
}
