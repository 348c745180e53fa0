/* Index pools: saving to and loading from paths and descriptors. See index_pool.h.
 *
 * A path is replaced as a whole: the new file is written beside it, synced, and renamed over it.
 * SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* realpath */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "objects/index_pool.h"
#include "os/os.h"

enum { PIECE = 1 << 30, PATH_BYTES = 4096, SUFFIX_BYTES = 40, OPEN_TRIES = 8 };

/* ---- descriptors --------------------------------------------------------------------------------------------------- */

static bool write_fd(void *user, const void *data, size_t bytes) {
  const uint8_t *at = data;
  while (bytes > 0) {
    ssize_t done = write(*(const int *)user, at, hd_min(bytes, PIECE));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      if (done == 0) errno = EIO;
      return false;
    }
    at += done;
    bytes -= (size_t)done;
  }
  return true;
}

static bool read_fd(void *user, void *data, size_t bytes, size_t *done) {
  uint8_t *at = data;
  for (*done = 0; *done < bytes;) {
    ssize_t got = read(*(const int *)user, at + *done, hd_min(bytes - *done, PIECE));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    *done += (size_t)got;
  }
  return true;
}

HD_EXPORT hd_index_status hd_index_pool_save_fd(hd_index_pool *pool, int fd, const hd_index_save *how) {
  int keep = errno;
  hd_index_body *body = hdi_index_pool_body(pool);
  hd_index_status status = hdi_index_pool_prepare(body, how);
  if (status == HD_INDEX_OK) status = hdi_index_pool_save(body, write_fd, &fd, "to a descriptor");
  if (status == HD_INDEX_OK) errno = keep;
  return status;
}

HD_EXPORT hd_index_status hd_index_pool_load_fd(hd_index_pool *pool, int fd) {
  int keep = errno;
  hd_index_status status = hdi_index_pool_load(hdi_index_pool_body(pool), read_fd, &fd, false, "from a descriptor");
  if (status == HD_INDEX_OK) errno = keep;
  return status;
}

/* ---- paths --------------------------------------------------------------------------------------------------------- */

/* Make a new file beside path; its name goes to `name`. */
static int open_beside(const char *path, char *name, size_t bytes) {
  for (int tries = 0; tries < OPEN_TRIES; tries++) {
    hd_text text;
    hdi_text_start(&text, name, bytes);
    hdi_text_put(&text, path);
    hdi_text_put(&text, ".");
    hdi_text_hex(&text, hdi_os_random());
    hdi_text_put(&text, ".tmp");
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* The directory entry is safe only when the directory is. Some file systems cannot sync one; the file itself is whole in any case. */
static void sync_directory(char *path) {
  char *slash = NULL;
  for (char *at = path; *at != 0; at++) {
    if (*at == '/') slash = at;
  }
  if (slash != NULL) slash[slash == path] = 0;
  int fd = open(slash != NULL ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)fsync(fd);
  (void)close(fd);
}

static hd_index_status refused(hd_index_body *body, const char *verb, const char *path, int *error) {
  *error = errno;
  return hdi_index_pool_fail(body, verb, path, HD_INDEX_IO, "the system refuses");
}

static hd_index_status save_directly(hd_index_body *body, const char *path) {
  int error = 0;
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return refused(body, "open", path, &error);
  hd_index_status status = hdi_index_pool_save(body, write_fd, &fd, path);
  if (status != HD_INDEX_OK) error = errno;
  if (close(fd) != 0 && status == HD_INDEX_OK) status = refused(body, "close", path, &error);
  if (status != HD_INDEX_OK) errno = error;
  return status;
}

static hd_index_status save_beside(hd_index_body *body, char *path) {
  char name[PATH_BYTES + SUFFIX_BYTES];
  int error = 0;
  int fd = open_beside(path, name, sizeof name);
  if (fd < 0) return refused(body, "create a file beside", path, &error);
  hd_index_status status = hdi_index_pool_save(body, write_fd, &fd, path);
  if (status != HD_INDEX_OK) error = errno;
  if (status == HD_INDEX_OK && fsync(fd) != 0) status = refused(body, "sync", path, &error);
  if (close(fd) != 0 && status == HD_INDEX_OK) status = refused(body, "close", path, &error);
  if (status == HD_INDEX_OK && rename(name, path) != 0) status = refused(body, "rename to", path, &error);
  if (status == HD_INDEX_OK) {
    sync_directory(path);
    return status;
  }
  (void)unlink(name);
  errno = error;
  return status;
}

HD_EXPORT hd_index_status hd_index_pool_save(hd_index_pool *pool, const char *path, const hd_index_save *how) {
  int keep = errno;
  char real[PATH_MAX > PATH_BYTES ? PATH_MAX : PATH_BYTES];
  struct stat old;
  hd_index_body *body = hdi_index_pool_body(pool);
  hd_index_status status = hdi_index_pool_prepare(body, how);
  if (status != HD_INDEX_OK) return status;
  if (path == NULL) return hdi_index_pool_fail(body, "save to", "no path", HD_INDEX_INVALID, "there is none");
  size_t length = strlen(path);
  if (length >= PATH_BYTES) {
    errno = ENAMETOOLONG;
    return hdi_index_pool_fail(body, "save to", path, HD_INDEX_IO, "the path is too long");
  }
  bool exists = stat(path, &old) == 0;
  /* A link stays a link: the file it names is replaced. */
  if (!exists || realpath(path, real) == NULL) memcpy(real, path, length + 1);
  status = exists && !S_ISREG(old.st_mode) ? save_directly(body, real) : save_beside(body, real);
  if (status == HD_INDEX_OK) errno = keep;
  return status;
}

HD_EXPORT hd_index_status hd_index_pool_load(hd_index_pool *pool, const char *path) {
  int keep = errno;
  hd_index_body *body = hdi_index_pool_body(pool);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  int error = 0;
  if (fd < 0) return refused(body, "open", path, &error);
  hd_index_status status = hdi_index_pool_load(body, read_fd, &fd, true, path);
  error = errno;
  (void)close(fd);
  errno = status == HD_INDEX_OK ? keep : error;
  return status;
}
