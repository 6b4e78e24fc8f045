/* What the pretended CUDA and NCCL have besides the functions of the real ones, and NCCL's types. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct {
  char text[128];
} ncclUniqueId;

/* A new stream. */
void *fake_stream(void);
/* Work that takes so long, and counts at its end. */
int fake_kernel(void *stream, unsigned microseconds, uint32_t *counter);
/* Where every collective counts, for others to see: a file of one word. */
void fake_count_in(const char *path);

int ncclCommInitRank(void **comm, int ranks, ncclUniqueId id, int rank);
int ncclCommDestroy(void *comm);
int ncclCommCount(void *comm, int *ranks);
int ncclCommUserRank(void *comm, int *rank);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *from, void *to, size_t count, int kind, int op, void *comm, void *stream);
int ncclAllGather(const void *from, void *to, size_t count, int kind, void *comm, void *stream);
int ncclReduceScatter(const void *from, void *to, size_t count, int kind, int op, void *comm, void *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int kind, int root, void *comm, void *stream);
int ncclBcast(void *buffer, size_t count, int kind, int root, void *comm, void *stream);
int ncclSend(const void *from, size_t count, int kind, int peer, void *comm, void *stream);
int ncclRecv(void *to, size_t count, int kind, int peer, void *comm, void *stream);
void motet_shim_iteration(void) __attribute__((weak));
