/* Disks that are full on command; disk_shim.rs writes the file and says what is in it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FREE, NO_GROWTH, NO_WRITES };

struct state {
    int32_t mode;
    char directory[PATH_MAX];
};

static volatile struct state *shared;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("LEASEHOLD_DISK_SHIM");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *map = mmap(NULL, sizeof(struct state), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (map != MAP_FAILED) shared = map;
}

/* Whether bytes up to `end` do not fit; errno is kept unless they do not. */
static int is_full(int file, off_t end) {
    int32_t mode = shared ? __atomic_load_n(&shared->mode, __ATOMIC_ACQUIRE) : FREE;
    if (mode == FREE) return 0;
    int before = errno;
    char link[32], path[PATH_MAX];
    const char *directory = (const char *)shared->directory;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    size_t prefix = strlen(directory);
    struct stat now;
    int inside = strncmp(path, directory, prefix) == 0 && path[prefix] == '/' &&
                 fstat(file, &now) == 0 && S_ISREG(now.st_mode);
    errno = before;
    if (!inside || (mode == NO_GROWTH && end <= now.st_size)) return 0;
    errno = ENOSPC;
    return 1;
}

/* Where a write of so many bytes would end that names no place of its own. */
static off_t end_of(int file, size_t bytes) {
    int flags = fcntl(file, F_GETFL);
    struct stat now;
    int appends = flags != -1 && (flags & O_APPEND) && fstat(file, &now) == 0;
    return (appends ? now.st_size : lseek(file, 0, SEEK_CUR)) + (off_t)bytes;
}

static size_t sum(const struct iovec *parts, int count) {
    size_t bytes = 0;
    for (int at = 0; at < count; at++) bytes += parts[at].iov_len;
    return bytes;
}

/* Cheap while the disk has space: most writes are to sockets. */
static int may_be_full(void) {
    return shared && __atomic_load_n(&shared->mode, __ATOMIC_ACQUIRE) != FREE;
}

static int refuses(int file, size_t bytes) {
    if (!may_be_full()) return 0;
    int before = errno;
    off_t end = end_of(file, bytes);
    errno = before;
    return is_full(file, end);
}

ssize_t write(int file, const void *from, size_t bytes) {
    return refuses(file, bytes) ? -1 : syscall(SYS_write, file, from, bytes);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    return refuses(file, sum(parts, count)) ? -1 : syscall(SYS_writev, file, parts, count);
}

ssize_t pwrite64(int file, const void *from, size_t bytes, off64_t at) {
    if (is_full(file, at + (off_t)bytes)) return -1;
    return syscall(SYS_pwrite64, file, from, bytes, at);
}

ssize_t pwrite(int file, const void *from, size_t bytes, off_t at) {
    return pwrite64(file, from, bytes, at);
}

ssize_t pwritev64(int file, const struct iovec *parts, int count, off64_t at) {
    if (is_full(file, at + (off_t)sum(parts, count))) return -1;
    /* The place is split into two halves of a register each. */
    return syscall(SYS_pwritev, file, parts, count, (long)at, 0L);
}

ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at) {
    return pwritev64(file, parts, count, at);
}

int ftruncate64(int file, off64_t size) {
    struct stat now;
    if (may_be_full() && fstat(file, &now) == 0 && size > now.st_size && is_full(file, size)) {
        return -1;
    }
    return (int)syscall(SYS_ftruncate, file, size);
}

int ftruncate(int file, off_t size) {
    return ftruncate64(file, size);
}

int fallocate64(int file, int mode, off64_t from, off64_t bytes) {
    if (is_full(file, from + bytes)) return -1;
    return (int)syscall(SYS_fallocate, file, mode, from, bytes);
}

int fallocate(int file, int mode, off_t from, off_t bytes) {
    return fallocate64(file, mode, from, bytes);
}

/* Returns the error, and leaves errno alone. */
int posix_fallocate64(int file, off64_t from, off64_t bytes) {
    int before = errno;
    int error = fallocate64(file, 0, from, bytes) == 0 ? 0 : errno;
    errno = before;
    return error;
}

int posix_fallocate(int file, off_t from, off_t bytes) {
    return posix_fallocate64(file, from, bytes);
}
