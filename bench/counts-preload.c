/*
 * Notes the file calls of one process, a line each, in the file that COUNTS_LOG names: to be preloaded. The variables
 * are taken out of the environment, so the programs that it starts are not watched; that they were started is.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int out = -1;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("COUNTS_LOG");
  if (path == NULL) return;
  int fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  /* Out of the way: a child gets descriptors of its own with low numbers before it calls exec. */
  out = fcntl(fd, F_DUPFD_CLOEXEC, 500);
  close(fd);
  unsetenv("COUNTS_LOG");
  unsetenv("LD_PRELOAD");
}

static void note(const char *what, const char *path, long size) {
  char line[4200];
  if (out < 0) return;
  int length = snprintf(line, sizeof line, "%s %ld %.4000s\n", what, size, path);
  syscall(SYS_write, out, line, length);
}

static int is_file(int fd) {
  struct stat found;
  return out >= 0 && fstatat(fd, "", &found, AT_EMPTY_PATH) == 0 && S_ISREG(found.st_mode);
}

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (real == NULL) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name);

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    REAL(int, #name, const char *, int, ...) \
    va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
    int fd = real(path, flags, mode); \
    if (fd >= 0) note("open", path, 0); \
    return fd; \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
  int name(int at, const char *path, int flags, ...) { \
    REAL(int, #name, int, const char *, int, ...) \
    va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest); \
    int fd = real(at, path, flags, mode); \
    if (fd >= 0) note("open", path, 0); \
    return fd; \
  }
OPENAT(openat)
OPENAT(openat64)

#define PWRITE(name, offset) \
  ssize_t name(int fd, const void *buffer, size_t size, offset at) { \
    REAL(ssize_t, #name, int, const void *, size_t, offset) \
    ssize_t written = real(fd, buffer, size, at); \
    if (written >= 0 && is_file(fd)) note("write", "", written); \
    return written; \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t write(int fd, const void *buffer, size_t size) {
  REAL(ssize_t, "write", int, const void *, size_t)
  ssize_t written = real(fd, buffer, size);
  if (written >= 0 && is_file(fd)) note("write", "", written);
  return written;
}

#define SYNC(name) \
  int name(int fd) { \
    REAL(int, #name, int) \
    note("sync", "", 0); \
    return real(fd); \
  }
SYNC(fsync)
SYNC(fdatasync)

#define NAMED(kind, name) \
  int name(const char *path) { \
    REAL(int, #name, const char *) \
    note(kind, path, 0); \
    return real(path); \
  }
NAMED("change", unlink)
NAMED("change", rmdir)

int rename(const char *from, const char *to) {
  REAL(int, "rename", const char *, const char *)
  note("change", to, 0);
  return real(from, to);
}

int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t)
  note("change", path, 0);
  return real(path, mode);
}

int execvp(const char *file, char *const args[]) {
  REAL(int, "execvp", const char *, char *const[])
  note("spawn", file, 0);
  return real(file, args);
}

/* libuv asks for statx by its number. */
long syscall(long number, ...) {
  REAL(long, "syscall", long, ...)
  va_list rest;
  va_start(rest, number);
  long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
  long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
  va_end(rest);
  long result = real(number, a, b, c, d, e, f);
  if (number == SYS_statx && b != 0) note("stat", (const char *)b, 0);
  return result;
}

int statx(int at, const char *path, int flags, unsigned int mask, struct statx *found) {
  return syscall(SYS_statx, at, path, flags, mask, found);
}

#define STAT(name, kind) \
  int name(const char *path, struct kind *found) { \
    REAL(int, #name, const char *, struct kind *) \
    note("stat", path, 0); \
    return real(path, found); \
  }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)
