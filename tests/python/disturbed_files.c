/* Preloaded into a process, it disturbs what that does with files below one folder: at the nth action the process is killed, or the
   action fails with an errno, once or from then on. Built and driven by tests/python/moments_test.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char folder[4096];
static long moment, counted;
static int code, reads, stays;

/* moment: from 1; 0: nothing happens, and all actions are counted. error: 0 kills. of_reads: actions that read alone count and fail. */
void disturb_files(const char* below, long at, int error, int of_reads, int from_then_on) {
  snprintf(folder, sizeof folder, "%s", below);
  moment = at, code = error, reads = of_reads, stays = from_then_on, counted = 0;
}
long disturbed_actions(void) { return counted; }

static int is_below(const char* path) {
  return folder[0] != 0 && path != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_open_below(int descriptor) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  return is_below(path);
}

/* Whether this action fails; errno is set. */
static int fails(int is_read) {
  if (moment != 0 && code != 0 && is_read != reads) return 0;
  ++counted;
  if (moment == 0 || counted < moment || (counted > moment && !stays)) return 0;
  if (code == 0) kill(getpid(), SIGKILL);
  errno = code;
  return 1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void* bytes, size_t size) {
  if (is_open_below(descriptor)) {
    /* As a full disk, or a kill in the middle of it, has it. */
    const int last = moment != 0 && counted + 1 == moment && (code == 0 || (code == ENOSPC && stays)) && size > 1;
    if (last) {
      const ssize_t half = NEXT(write)(descriptor, bytes, size / 2);
      if (code == 0) kill(getpid(), SIGKILL);
      ++counted;
      return half;
    }
    if (fails(0)) return -1;
  }
  return NEXT(write)(descriptor, bytes, size);
}

#define OF_DESCRIPTOR(result, name, is_read, parameters, arguments) \
  result name parameters {                                          \
    if (is_open_below(descriptor) && fails(is_read)) return -1;     \
    return NEXT(name) arguments;                                    \
  }
OF_DESCRIPTOR(ssize_t, read, 1, (int descriptor, void* bytes, size_t size), (descriptor, bytes, size))
OF_DESCRIPTOR(ssize_t, pread64, 1, (int descriptor, void* bytes, size_t size, off64_t at), (descriptor, bytes, size, at))
OF_DESCRIPTOR(int, fsync, 0, (int descriptor), (descriptor))
OF_DESCRIPTOR(int, fdatasync, 0, (int descriptor), (descriptor))
OF_DESCRIPTOR(int, ftruncate64, 0, (int descriptor, off64_t size), (descriptor, size))

#define OF_PATH(name, parameters, arguments)      \
  int name parameters {                           \
    if (is_below(path) && fails(0)) return -1;    \
    return NEXT(name) arguments;                  \
  }
OF_PATH(unlink, (const char* path), (path))
OF_PATH(rmdir, (const char* path), (path))
OF_PATH(mkdir, (const char* path, mode_t mode), (path, mode))
OF_PATH(rename, (const char* path, const char* to), (path, to))
OF_PATH(link, (const char* path, const char* to), (path, to))

#define OF_OPEN(name)                                                              \
  int name(const char* path, int flags, ...) {                                     \
    va_list rest;                                                                  \
    va_start(rest, flags);                                                         \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                  \
    if (is_below(path) && fails((flags & O_ACCMODE) == O_RDONLY)) return -1;       \
    return NEXT(name)(path, flags, mode);                                          \
  }
OF_OPEN(open)
OF_OPEN(open64)
