/*
 * Stands between a program and libc where files are changed. Loaded with LD_PRELOAD into what `npm run test:crash` starts,
 * it kills the process at its n-th durable call, lets that call fail, or writes down every call for the power cut.
 *
 * CRASH_IO_ROOT     calls on paths below it count
 * CRASH_IO_SHARED   a file of zeros that all processes of a scenario share: counter and lock
 * CRASH_IO_PROGRAM  only processes with this text in their command line are touched; empty: all
 * CRASH_IO_MODE     count | before:N | half:N | after:N | once:N:ERRNO | from:N:ERRNO | trace
 * CRASH_IO_TRACE    where `trace` writes
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { OFF, COUNT, BEFORE, HALF, AFTER, ONCE, FROM, TRACE };
/* The order is the one of `disk.ts`. */
enum kind { CREATE = 1, WRITE, SYNC, RENAME, LINK, UNLINK, MKDIR, RMDIR, TRUNCATE, SYMLINK, SAID, OPEN, READ };

struct shared {
  uint64_t count;
  uint64_t hits;
  uint64_t ready;
  /* The first renames, by their number: what is half done there is seen by the next reader. */
  uint64_t renames[256];
  /* A bit for each of the first calls that wrote: only those can be half done. */
  uint64_t writes[128];
  /* The same for pages of a transaction of SQLite, which lasts as a whole or not at all. */
  uint64_t pages[128];
  pthread_mutex_t lock;
};

static enum mode mode;
static uint64_t target;
static int failure;
static char root[PATH_MAX];
static size_t root_length;
static struct shared *shared;
static char trace_path[PATH_MAX];

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
  return dlsym(RTLD_NEXT, name);
}

static int is_meant(void) {
  const char *program = getenv("CRASH_IO_PROGRAM");
  if (program == NULL || *program == 0) return 1;
  char line[4096];
  int fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t length = syscall(SYS_read, fd, line, sizeof line);
  syscall(SYS_close, fd);
  return length > 0 && memmem(line, (size_t)length, program, strlen(program)) != NULL;
}

static int map_shared(void) {
  const char *path = getenv("CRASH_IO_SHARED");
  if (path == NULL) return 0;
  int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return 0;
  void *at = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (at == MAP_FAILED) return 0;
  shared = at;
  if (__sync_bool_compare_and_swap(&shared->ready, 0, 1)) {
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_settype(&how, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&shared->lock, &how);
    __sync_synchronize();
    shared->ready = 2;
  }
  while (*(volatile uint64_t *)&shared->ready != 2) usleep(100);
  return 1;
}

__attribute__((constructor)) static void begin(void) {
  static const char *names[] = {"", "count", "before", "half", "after", "once", "from", "trace"};
  const char *text = getenv("CRASH_IO_MODE");
  const char *below = getenv("CRASH_IO_ROOT");
  const char *trace = getenv("CRASH_IO_TRACE");
  if (text == NULL || below == NULL || !is_meant() || !map_shared()) return;
  char word[16] = "";
  sscanf(text, "%15[a-z]:%lu:%d", word, &target, &failure);
  snprintf(root, sizeof root, "%s/", below);
  root_length = strlen(root);
  if (trace != NULL) snprintf(trace_path, sizeof trace_path, "%s", trace);
  for (int at = COUNT; at <= TRACE; at += 1)
    if (strcmp(word, names[at]) == 0) mode = at;
}

static int is_below(const char *path) {
  return strncmp(path, root, root_length) == 0 || strncmp(path, root, root_length - 1) == 0;
}

/* The path as the kernel would begin to read it; `..` is left to the reader of the trace. */
static int resolve(int directory, const char *path, char *out) {
  if (path == NULL) return 0;
  if (path[0] == '/') {
    snprintf(out, PATH_MAX, "%s", path);
  } else {
    char base[PATH_MAX] = "";
    if (directory == AT_FDCWD) {
      if (getcwd(base, sizeof base) == NULL) return 0;
    } else {
      char link[64];
      snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
      ssize_t length = readlink(link, base, sizeof base - 1);
      if (length < 0) return 0;
      base[length] = 0;
    }
    if (snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) return 0;
  }
  return is_below(out);
}

static int path_of(int fd, char *out) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, out, PATH_MAX - 1);
  if (length < 0) return 0;
  out[length] = 0;
  return is_below(out);
}

/* Only calls that can give this error count, so that every n is a fault that could happen. */
static int counts(enum kind kind) {
  if (mode != ONCE && mode != FROM) return kind != OPEN && kind != READ && kind != SAID;
  switch (failure) {
    case EMFILE: return kind == OPEN || kind == CREATE;
    case EACCES:
    case EROFS: return kind != READ && kind != WRITE && kind != SYNC && kind != OPEN && kind != TRUNCATE;
    case ENOSPC: return kind != READ && kind != OPEN && kind != UNLINK && kind != RMDIR && kind != TRUNCATE;
    default: return 1;
  }
}

/* The number of this thread's last call that counted. */
static __thread uint64_t entered;

static void die(void) {
  __sync_fetch_and_add(&shared->hits, 1);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* What is to happen at this call. FROM and ONCE: it fails. */
static enum mode enter(enum kind kind) {
  if (mode == TRACE || !counts(kind)) return OFF;
  uint64_t now = __sync_add_and_fetch(&shared->count, 1);
  entered = now;
  if (kind == RENAME)
    for (int at = 0; at < 256; at += 1)
      if (__sync_bool_compare_and_swap(&shared->renames[at], 0, now)) break;
  if (kind == WRITE && now < 64 * 128) __sync_fetch_and_or(&shared->writes[now / 64], 1ULL << (now % 64));
  switch (mode) {
    case BEFORE: if (now == target) die(); return OFF;
    case HALF: return now == target ? HALF : OFF;
    case AFTER: return now == target ? AFTER : OFF;
    case ONCE: if (now != target) return OFF; break;
    case FROM: if (now < target) return OFF; break;
    default: return OFF;
  }
  __sync_fetch_and_add(&shared->hits, 1);
  errno = failure;
  return ONCE;
}

static void leave(enum mode what) {
  if (what == AFTER || what == HALF) die();
}

static void lock(void) {
  if (mode == TRACE && pthread_mutex_lock(&shared->lock) == EOWNERDEAD) pthread_mutex_consistent(&shared->lock);
}

static void unlock(void) {
  int saved = errno;
  if (mode == TRACE) pthread_mutex_unlock(&shared->lock);
  errno = saved;
}

struct record {
  uint32_t kind, pid;
  uint64_t inode, offset;
  uint32_t path, other, data, pad;
};

/* Called with the lock held and after the call itself. */
static void note(enum kind kind, uint64_t inode, uint64_t offset, const char *path, const char *other,
                 const void *data, size_t length) {
  if (mode != TRACE) return;
  int saved = errno;
  struct record head = {kind, (uint32_t)getpid(), inode, offset, (uint32_t)strlen(path), (uint32_t)strlen(other), (uint32_t)length, 0};
  struct iovec parts[] = {{&head, sizeof head}, {(void *)path, head.path}, {(void *)other, head.other}, {(void *)data, length}};
  int fd = syscall(SYS_openat, AT_FDCWD, trace_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd >= 0) {
    syscall(SYS_writev, fd, parts, 4);
    syscall(SYS_close, fd);
  }
  errno = saved;
}

static uint64_t inode_of(int fd) {
  struct stat at;
  return syscall(SYS_fstat, fd, &at) == 0 ? at.st_ino : 0;
}

static uint64_t inode_at(const char *path) {
  struct stat at;
  return syscall(SYS_newfstatat, AT_FDCWD, path, &at, AT_SYMLINK_NOFOLLOW) == 0 ? at.st_ino : 0;
}

static int open_file(int directory, const char *path, int flags, mode_t bits) {
  char full[PATH_MAX];
  if (mode == OFF || !resolve(directory, path, full)) return syscall(SYS_openat, directory, path, flags, bits);
  lock();
  uint64_t before = inode_at(full);
  int creates = (flags & O_CREAT) != 0 && before == 0;
  int changes = creates || (flags & O_TRUNC) != 0;
  enum mode what = enter(changes ? CREATE : OPEN);
  int fd = -1;
  if (what != ONCE) {
    fd = syscall(SYS_openat, directory, path, flags, bits);
    if (fd >= 0 && creates) note(CREATE, inode_of(fd), 0, full, "", "", 0);
    else if (fd >= 0 && changes) note(TRUNCATE, inode_of(fd), 0, full, "", "", 0);
  }
  unlock();
  leave(what);
  return fd;
}

#define BITS(flags) \
  mode_t bits = 0; \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list rest; \
    va_start(rest, flags); \
    bits = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *path, int flags, ...) { BITS(flags) return open_file(AT_FDCWD, path, flags, bits); }
int open64(const char *path, int flags, ...) { BITS(flags) return open_file(AT_FDCWD, path, flags, bits); }
int openat(int at, const char *path, int flags, ...) { BITS(flags) return open_file(at, path, flags, bits); }
int openat64(int at, const char *path, int flags, ...) { BITS(flags) return open_file(at, path, flags, bits); }
int creat(const char *path, mode_t bits) { return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, bits); }

/* Gathered into one buffer, so that half of it can be written and all of it noted. */
static ssize_t write_file(int fd, const struct iovec *parts, int count, off_t offset) {
  char path[PATH_MAX];
  int below = mode != OFF && path_of(fd, path);
  int said = !below && mode == TRACE && (fd == 1 || fd == 2);
  if (!below && !said)
    return offset < 0 ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, offset, 0);
  size_t length = 0;
  for (int at = 0; at < count; at += 1) length += parts[at].iov_len;
  char *all = malloc(length + 1);
  size_t filled = 0;
  for (int at = 0; at < count; filled += parts[at].iov_len, at += 1)
    memcpy(all + filled, parts[at].iov_base, parts[at].iov_len);
  lock();
  enum mode what = enter(said ? SAID : WRITE);
  if (mode == COUNT && entered < 64 * 128 && strlen(path) > 4 && strcmp(path + strlen(path) - 4, "-wal") == 0)
    __sync_fetch_and_or(&shared->pages[entered / 64], 1ULL << (entered % 64));
  ssize_t written = -1;
  if (what != ONCE) {
    size_t much = what == HALF ? length / 2 : length;
    written = offset < 0 ? syscall(SYS_write, fd, all, much) : syscall(SYS_pwrite64, fd, all, much, offset);
    if (written >= 0 && mode == TRACE) {
      uint64_t at = offset >= 0 ? (uint64_t)offset : (uint64_t)(lseek(fd, 0, SEEK_CUR) - written);
      if (said) note(SAID, (uint64_t)fd, 0, "", "", all, (size_t)written);
      else note(WRITE, inode_of(fd), at, path, "", all, (size_t)written);
    }
  }
  unlock();
  int saved = errno;
  free(all);
  errno = saved;
  leave(what);
  return written;
}

ssize_t write(int fd, const void *data, size_t length) {
  struct iovec part = {(void *)data, length};
  return write_file(fd, &part, 1, -1);
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) {
  struct iovec part = {(void *)data, length};
  return write_file(fd, &part, 1, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t length, off64_t offset) {
  struct iovec part = {(void *)data, length};
  return write_file(fd, &part, 1, offset);
}
ssize_t writev(int fd, const struct iovec *parts, int count) { return write_file(fd, parts, count, -1); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return write_file(fd, parts, count, offset); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) { return write_file(fd, parts, count, offset); }

/* A copy inside the kernel becomes reads and writes. */
ssize_t sendfile64(int out, int in, off64_t *offset, size_t length) {
  char path[PATH_MAX];
  if (mode == OFF || !path_of(out, path)) return syscall(SYS_sendfile, out, in, offset, length);
  size_t much = length < 1 << 20 ? length : 1 << 20;
  char *data = malloc(much + 1);
  ssize_t got = offset == NULL ? syscall(SYS_read, in, data, much) : syscall(SYS_pread64, in, data, much, *offset);
  ssize_t done = got;
  if (got > 0) {
    done = write(out, data, (size_t)got);
    if (done > 0 && offset != NULL) *offset += done;
  }
  int saved = errno;
  free(data);
  errno = saved;
  return done;
}
ssize_t sendfile(int out, int in, off_t *offset, size_t length) { return sendfile64(out, in, offset, length); }

ssize_t copy_file_range(int in, off64_t *from, int out, off64_t *to, size_t length, unsigned flags) {
  if (mode == OFF) return REAL(copy_file_range)(in, from, out, to, length, flags);
  errno = ENOSYS;
  return -1;
}

/* libuv asks for copy_file_range this way, and falls back to sendfile. */
long syscall(long number, ...) {
  static long (*direct)(long, ...);
  if (direct == NULL) direct = real("syscall");
  va_list rest;
  va_start(rest, number);
  long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
  long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
  va_end(rest);
  if (mode != OFF && number == SYS_copy_file_range) {
    errno = ENOSYS;
    return -1;
  }
  return direct(number, a, b, c, d, e, f);
}

static ssize_t read_file(int fd, void *data, size_t length, off_t offset) {
  char path[PATH_MAX];
  if ((mode == ONCE || mode == FROM) && failure == EIO && path_of(fd, path) && enter(READ) == ONCE) return -1;
  return offset < 0 ? syscall(SYS_read, fd, data, length) : syscall(SYS_pread64, fd, data, length, offset);
}
ssize_t read(int fd, void *data, size_t length) { return read_file(fd, data, length, -1); }
ssize_t pread(int fd, void *data, size_t length, off_t offset) { return read_file(fd, data, length, offset); }
ssize_t pread64(int fd, void *data, size_t length, off64_t offset) { return read_file(fd, data, length, offset); }

static int sync_file(int fd, long number) {
  char path[PATH_MAX];
  if (mode == OFF || !path_of(fd, path)) return syscall(number, fd);
  lock();
  enum mode what = enter(SYNC);
  int result = what == ONCE ? -1 : syscall(number, fd);
  if (result == 0) note(SYNC, inode_of(fd), 0, path, "", "", 0);
  unlock();
  leave(what);
  return result;
}
int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

int ftruncate(int fd, off_t length) {
  char path[PATH_MAX];
  if (mode == OFF || !path_of(fd, path)) return syscall(SYS_ftruncate, fd, length);
  lock();
  enum mode what = enter(TRUNCATE);
  int result = what == ONCE ? -1 : syscall(SYS_ftruncate, fd, length);
  if (result == 0) note(TRUNCATE, inode_of(fd), (uint64_t)length, path, "", "", 0);
  unlock();
  leave(what);
  return result;
}
int ftruncate64(int fd, off64_t length) { return ftruncate(fd, length); }

/* Git writes small files through stdio, which no library sees: what such a file holds is read when it gets its name. */
static void note_content(const char *path) {
  char content[65536];
  int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  ssize_t length = syscall(SYS_read, fd, content, sizeof content);
  if (length > 0 && length < (ssize_t)sizeof content) note(WRITE, inode_of(fd), 0, path, "", content, (size_t)length);
  syscall(SYS_close, fd);
}

static int two_names(enum kind kind, int from_at, const char *from, int to_at, const char *to, unsigned flags) {
  char one[PATH_MAX] = "", other[PATH_MAX] = "";
  int meant = mode != OFF && (resolve(from_at, from, one) | resolve(to_at, to, other));
  enum mode what = OFF;
  if (meant) {
    lock();
    what = enter(kind);
  }
  int result = -1;
  if (what != ONCE)
    result = kind == RENAME ? syscall(SYS_renameat2, from_at, from, to_at, to, flags)
                            : syscall(SYS_linkat, from_at, from, to_at, to, flags);
  if (!meant) return result;
  if (result == 0 && mode == TRACE && kind == RENAME && strstr(other, "/.git/") != NULL) note_content(other);
  if (result == 0) note(kind, inode_at(other), 0, one, other, "", 0);
  unlock();
  leave(what);
  return result;
}
int rename(const char *from, const char *to) { return two_names(RENAME, AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return two_names(RENAME, a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return two_names(RENAME, a, from, b, to, flags); }
int link(const char *from, const char *to) { return two_names(LINK, AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return two_names(LINK, a, from, b, to, (unsigned)flags); }

static int one_name(enum kind kind, int at, const char *path, long argument) {
  char full[PATH_MAX];
  int meant = mode != OFF && resolve(at, path, full);
  enum mode what = OFF;
  if (meant) {
    lock();
    what = enter(kind);
  }
  int result = -1;
  if (what != ONCE)
    result = kind == MKDIR ? syscall(SYS_mkdirat, at, path, argument)
                           : syscall(SYS_unlinkat, at, path, kind == RMDIR ? AT_REMOVEDIR : 0);
  if (!meant) return result;
  if (result == 0) note(kind, kind == MKDIR ? inode_at(full) : 0, 0, full, "", "", 0);
  unlock();
  leave(what);
  return result;
}
int unlink(const char *path) { return one_name(UNLINK, AT_FDCWD, path, 0); }
int unlinkat(int at, const char *path, int flags) { return one_name((flags & AT_REMOVEDIR) != 0 ? RMDIR : UNLINK, at, path, 0); }
int rmdir(const char *path) { return one_name(RMDIR, AT_FDCWD, path, 0); }
int mkdir(const char *path, mode_t bits) { return one_name(MKDIR, AT_FDCWD, path, bits); }
int mkdirat(int at, const char *path, mode_t bits) { return one_name(MKDIR, at, path, bits); }

int symlink(const char *content, const char *path) {
  char full[PATH_MAX];
  if (mode != TRACE || !resolve(AT_FDCWD, path, full)) return syscall(SYS_symlinkat, content, AT_FDCWD, path);
  lock();
  int result = syscall(SYS_symlinkat, content, AT_FDCWD, path);
  if (result == 0) note(SYMLINK, inode_at(full), 0, full, content, "", 0);
  unlock();
  return result;
}
