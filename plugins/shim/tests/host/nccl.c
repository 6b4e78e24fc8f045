/* As much of NCCL as the job calls: a call is work on its stream, and counts. A communicator's id is a text with the ranks of the job that
   it has, so that an AllGather of them can be answered without the others. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

struct comm {
  int ranks, rank;
  uint32_t members[16];
};

static uint32_t local, *counter = &local;
static __thread int depth;
static __thread void *streams[64];
static __thread int grouped;

void fake_count_in(const char *path) {
  int file = open(path, O_RDWR);
  if (file < 0) abort();
  counter = mmap(0, 4, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (counter == MAP_FAILED) abort();
}

int ncclCommInitRank(void **comm, int ranks, ncclUniqueId id, int rank) {
  struct comm *it = calloc(1, sizeof *it);
  it->ranks = ranks;
  it->rank = rank;
  char *rest = id.text;
  for (int i = 0; i < ranks; i++) it->members[i] = (uint32_t)strtoul(i ? rest + 1 : rest, &rest, 10);
  *comm = it;
  return 0;
}

int ncclCommDestroy(void *comm) {
  free(comm);
  return 0;
}

int ncclCommCount(void *comm, int *ranks) {
  *ranks = ((struct comm *)comm)->ranks;
  return 0;
}

int ncclCommUserRank(void *comm, int *rank) {
  *rank = ((struct comm *)comm)->rank;
  return 0;
}

int ncclGroupStart(void) {
  depth++;
  return 0;
}

int ncclGroupEnd(void) {
  if (--depth) return 0;
  for (int i = 0; i < grouped; i++) fake_kernel(streams[i], 200, counter);
  grouped = 0;
  return 0;
}

/* A count of 13 is refused, with the real one's ncclInvalidArgument. */
static int work(size_t count, void *stream) {
  if (count == 13) return 4;
  if (!depth) return fake_kernel(stream, 200, counter);
  streams[grouped++] = stream;
  return 0;
}

int ncclAllReduce(const void *from, void *to, size_t count, int kind, int op, void *comm, void *stream) {
  (void)from, (void)to, (void)kind, (void)op, (void)comm;
  return work(count, stream);
}

int ncclAllGather(const void *from, void *to, size_t count, int kind, void *comm, void *stream) {
  struct comm *it = comm;
  if (count == 1 && kind == 3) {
    memcpy(to, it->members, 4 * (size_t)it->ranks);
    /* Its own rank's number is the caller's. */
    return ((uint32_t *)to)[it->rank] != *(const uint32_t *)from;
  }
  return work(count, stream);
}

int ncclReduceScatter(const void *from, void *to, size_t count, int kind, int op, void *comm, void *stream) {
  (void)from, (void)to, (void)kind, (void)op, (void)comm;
  return work(count, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int kind, int root, void *comm, void *stream) {
  (void)from, (void)to, (void)kind, (void)root, (void)comm;
  return work(count, stream);
}

/* Calls the other by its public name, as NCCL does. */
int ncclBcast(void *buffer, size_t count, int kind, int root, void *comm, void *stream) {
  return ncclBroadcast(buffer, buffer, count, kind, root, comm, stream);
}

int ncclSend(const void *from, size_t count, int kind, int peer, void *comm, void *stream) {
  (void)from, (void)kind, (void)peer, (void)comm;
  return work(count, stream);
}

int ncclRecv(void *to, size_t count, int kind, int peer, void *comm, void *stream) {
  (void)to, (void)kind, (void)peer, (void)comm;
  return work(count, stream);
}
