/* As much of CUDA's driver as the shim and the pretended NCCL use. A stream is a thread that does one thing after the other. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"

enum kind { WRITE, WAIT, KERNEL };

struct work {
  enum kind kind;
  _Atomic uint32_t *word;
  uint32_t value;
  unsigned microseconds;
  struct work *next;
};

struct stream {
  pthread_mutex_t lock;
  pthread_cond_t bell;
  struct work *first, *last;
  int busy;
};

static struct stream null_stream = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *run(void *argument) {
  struct stream *stream = argument;
  for (;;) {
    pthread_mutex_lock(&stream->lock);
    while (!stream->first) pthread_cond_wait(&stream->bell, &stream->lock);
    struct work *work = stream->first;
    stream->first = work->next;
    if (!stream->first) stream->last = 0;
    stream->busy = 1;
    pthread_mutex_unlock(&stream->lock);
    if (work->kind == WRITE) atomic_store(work->word, work->value);
    if (work->kind == WAIT)
      while (atomic_load(work->word) < work->value) usleep(20);
    if (work->kind == KERNEL) {
      usleep(work->microseconds);
      atomic_fetch_add(work->word, 1);
    }
    free(work);
    pthread_mutex_lock(&stream->lock);
    stream->busy = 0;
    pthread_cond_broadcast(&stream->bell);
    pthread_mutex_unlock(&stream->lock);
  }
  return 0;
}

static void start_null(void) {
  pthread_t thread;
  pthread_create(&thread, 0, run, &null_stream);
}

void *fake_stream(void) {
  struct stream *stream = calloc(1, sizeof *stream);
  pthread_mutex_init(&stream->lock, 0);
  pthread_cond_init(&stream->bell, 0);
  pthread_t thread;
  pthread_create(&thread, 0, run, stream);
  return stream;
}

static struct stream *of(void *stream) {
  pthread_once(&once, start_null);
  return stream ? stream : &null_stream;
}

static int put(void *handle, enum kind kind, uint64_t word, uint32_t value, unsigned microseconds) {
  struct stream *stream = of(handle);
  struct work *work = calloc(1, sizeof *work);
  *work = (struct work){kind, (_Atomic uint32_t *)word, value, microseconds, 0};
  pthread_mutex_lock(&stream->lock);
  if (stream->last) stream->last->next = work;
  else stream->first = work;
  stream->last = work;
  pthread_cond_broadcast(&stream->bell);
  pthread_mutex_unlock(&stream->lock);
  return 0;
}

int fake_kernel(void *stream, unsigned microseconds, uint32_t *counter) {
  return put(stream, KERNEL, (uint64_t)counter, 0, microseconds);
}

int cuStreamWriteValue32_v2(void *stream, uint64_t word, uint32_t value, unsigned flags) {
  return flags ? 1 : put(stream, WRITE, word, value, 0);
}

int cuStreamWaitValue32_v2(void *stream, uint64_t word, uint32_t value, unsigned flags) {
  return flags ? 1 : put(stream, WAIT, word, value, 0);
}

int cuStreamSynchronize(void *handle) {
  struct stream *stream = of(handle);
  pthread_mutex_lock(&stream->lock);
  while (stream->first || stream->busy) pthread_cond_wait(&stream->bell, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
  return 0;
}

int cuStreamIsCapturing(void *stream, int *status) {
  (void)stream;
  *status = getenv("FAKE_CAPTURE") != 0;
  return 0;
}

int cuCtxGetCurrent(void **context) {
  *context = &null_stream;
  return 0;
}

int cuMemHostAlloc(void **memory, size_t bytes, unsigned flags) {
  *memory = calloc(1, bytes);
  return flags != 3;
}

int cuMemHostGetDevicePointer_v2(uint64_t *device, void *host, unsigned flags) {
  *device = (uint64_t)host;
  return (int)flags;
}

int cuMemAlloc_v2(uint64_t *memory, size_t bytes) {
  *memory = (uint64_t)calloc(1, bytes);
  return 0;
}

int cuMemFree_v2(uint64_t memory) {
  free((void *)memory);
  return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) {
  memcpy((void *)to, from, bytes);
  return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) {
  memcpy(to, (void *)from, bytes);
  return 0;
}
