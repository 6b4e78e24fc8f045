/* A rank of a C program: host STORE RANK RANKS all|loss|last-call. Exit code 0 and "rank N is done" if everything was right. */
#define _POSIX_C_SOURCE 200809L
#include "motet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint32_t rank, ranks;
static motet_comm *comm;

#define ASK(what)                                                                         \
  do {                                                                                    \
    if (!(what)) {                                                                        \
      fprintf(stderr, "rank %u, line %d: %s (last error: %s)\n", rank, __LINE__, #what,   \
              motet_last_error());                                                        \
      exit(1);                                                                            \
    }                                                                                     \
  } while (0)
#define OK(call) ASK((call) == MOTET_OK)

/* What rank r has at i: small integers, so that sums are exact. */
static float given(uint32_t r, size_t i) { return (float)((r * 7 + i * 3) % 11); }
static float *input(size_t count) {
  float *all = malloc(count * sizeof *all);
  for (size_t i = 0; i < count; i++) all[i] = given(rank, i);
  return all;
}
static float sum(size_t i) {
  float all = 0;
  for (uint32_t r = 0; r < ranks; r++) all += given(r, i);
  return all;
}

static void reductions(size_t count) {
  float *in = input(count * ranks), *out = calloc(count, sizeof *out);
  OK(motet_allreduce(comm, in, out, count, MOTET_F32, MOTET_SUM, NULL));
  for (size_t i = 0; i < count; i++) ASK(out[i] == sum(i) && in[i] == given(rank, i));
  OK(motet_reducescatter(comm, in, out, count, MOTET_F32, MOTET_SUM, NULL));
  for (size_t i = 0; i < count; i++) ASK(out[i] == sum(rank * count + i));
  uint32_t root = ranks - 1;
  memset(out, 0, count * sizeof *out);
  OK(motet_reduce(comm, in, rank == root ? out : NULL, count, MOTET_F32, MOTET_SUM, root, NULL));
  for (size_t i = 0; i < count; i++) ASK(out[i] == (rank == root ? sum(i) : 0));
  /* In place, and an average. */
  OK(motet_allreduce(comm, in, in, count, MOTET_F32, MOTET_AVERAGE, NULL));
  for (size_t i = 0; i < count; i++) ASK(in[i] == sum(i) / (float)ranks);
  int64_t most[3] = {rank, -(int64_t)rank, 5};
  OK(motet_allreduce(comm, most, most, 3, MOTET_I64, MOTET_MAX, NULL));
  ASK(most[0] == ranks - 1 && most[1] == 0 && most[2] == 5);
  free(in), free(out);
}

static void copies(size_t count) {
  float *in = input(count * ranks), *out = calloc(count * ranks, sizeof *out);
  OK(motet_allgather(comm, in, out, count, MOTET_F32, NULL));
  for (uint32_t r = 0; r < ranks; r++)
    for (size_t i = 0; i < count; i++) ASK(out[r * count + i] == given(r, i));
  OK(motet_alltoall(comm, in, out, count, MOTET_F32, NULL));
  for (uint32_t r = 0; r < ranks; r++)
    for (size_t i = 0; i < count; i++) ASK(out[r * count + i] == given(r, rank * count + i));
  for (uint32_t root = 0; root < ranks; root += ranks > 1 ? ranks - 1 : 1) {
    OK(motet_gather(comm, in, rank == root ? out : NULL, count, MOTET_F32, root, NULL));
    for (uint32_t r = 0; rank == root && r < ranks; r++)
      for (size_t i = 0; i < count; i++) ASK(out[r * count + i] == given(r, i));
    OK(motet_scatter(comm, rank == root ? in : NULL, out, count, MOTET_F32, root, NULL));
    for (size_t i = 0; i < count; i++) ASK(out[i] == given(root, rank * count + i));
    float *both = rank == root ? in : out;
    OK(motet_broadcast(comm, both, both, count, MOTET_F32, root, NULL));
    for (size_t i = 0; i < count; i++) ASK(both[i] == given(root, i));
  }
  free(in), free(out);
}

/* Many at once, of the same sort and of different ones; all ends in order. */
static void at_once(void) {
  enum { CALLS = 12 };
  float *buffers[CALLS];
  motet_request *requests[CALLS];
  for (size_t call = 0; call < CALLS; call++) {
    size_t count = call % 3 ? 1000 : 2000;
    buffers[call] = input(count);
    OK(motet_allreduce(comm, buffers[call], buffers[call], count, MOTET_F32, MOTET_SUM, &requests[call]));
  }
  int32_t ended = 0;
  OK(motet_test(requests[CALLS - 1], &ended));
  ASK(ended == 0 || ended == 1);
  /* In another order than they were started. */
  for (size_t call = CALLS; call-- > 0;) {
    OK(motet_wait(requests[call]));
    for (size_t i = 0; i < (call % 3 ? 1000u : 2000u); i++) ASK(buffers[call][i] == sum(i));
    free(buffers[call]);
  }
}

/* Around in a ring, both ways at once. */
static void pairs(void) {
  if (ranks < 2) return;
  uint32_t next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  float *in = input(777), one[777], other[777];
  motet_request *requests[4];
  OK(motet_send(comm, in, 777, MOTET_F32, next, 1, &requests[0]));
  OK(motet_send(comm, in, 777, MOTET_F32, before, 2, &requests[1]));
  OK(motet_receive(comm, other, 777, MOTET_F32, next, 2, &requests[2]));
  OK(motet_receive(comm, one, 777, MOTET_F32, before, 1, &requests[3]));
  for (int i = 0; i < 4; i++) OK(motet_wait(requests[i]));
  for (size_t i = 0; i < 777; i++) ASK(one[i] == given(before, i) && other[i] == given(next, i));
  free(in);
}

/* A process that ends with its last call takes nothing away from the other. */
static void last_call(void) {
  float value = (float)rank;
  if (rank == 0) {
    OK(motet_send(comm, &value, 1, MOTET_F32, 1, 0, NULL));
    return;
  }
  OK(motet_receive(comm, &value, 1, MOTET_F32, 0, 0, NULL));
  ASK(value == 0);
  printf("rank %u is done\n", rank);
  fflush(stdout);
  _Exit(0);
}

static void mistakes(void) {
  float value = 0;
  motet_request *none = NULL;
  ASK(motet_allreduce(NULL, &value, &value, 1, MOTET_F32, MOTET_SUM, NULL) == MOTET_INVALID);
  ASK(motet_allreduce(comm, NULL, &value, 1, MOTET_F32, MOTET_SUM, &none) == MOTET_INVALID && !none);
  ASK(strstr(motet_last_error(), "null pointer"));
  ASK(motet_allreduce(comm, &value, &value, 1, (motet_type)99, MOTET_SUM, NULL) == MOTET_INVALID);
  ASK(strcmp(motet_last_error(), "there is no type 99") == 0);
  ASK(motet_allreduce(comm, &value, &value, 1, MOTET_F32, (motet_reduction)-1, NULL) == MOTET_INVALID);
  ASK(motet_broadcast(comm, &value, &value, 1, MOTET_F32, ranks, NULL) == MOTET_INVALID);
  ASK(motet_send(comm, &value, 1, MOTET_F32, rank, 0, NULL) == MOTET_INVALID);
  ASK(motet_wait(NULL) == MOTET_INVALID && motet_test(NULL, NULL) == MOTET_INVALID);
  ASK(motet_init(NULL, NULL) == MOTET_INVALID);
  motet_options options = {0};
  ASK(motet_init(&options, &comm) == MOTET_INVALID && strstr(motet_last_error(), "motet_options_init"));
  OK(motet_allreduce(comm, NULL, NULL, 0, MOTET_F32, MOTET_SUM, NULL));
  OK(motet_destroy(NULL));
  ASK(strlen(motet_version()) >= 5);
}

/* Stores by options of this version and of the first, and with files that are not there. */
static void store_by_options(void) {
  motet_store *store = NULL;
  char address[64];
  motet_options options;
  motet_options_init(&options);
  ASK(options.struct_size == sizeof options);
  options.store = "127.0.0.1:0";
  options.tls_certificate = "nowhere.pem";
  options.tls_ca = options.tls_key = "nowhere.pem";
  ASK(motet_store_serve_options(&options, address, sizeof address, &store) == MOTET_INVALID);
  ASK(strstr(motet_last_error(), "nowhere.pem: "));
  /* As a program calls it that was compiled before there was TLS: it has no room for more. */
  char before[sizeof options];
  memset(before, 0x5a, sizeof before);
  motet_options *old = (motet_options *)memcpy(&options, before, sizeof options);
  (motet_options_init)(old);
  ASK(old->struct_size == offsetof(motet_options, tls_certificate));
  ASK(memcmp(&old->tls_certificate, before, sizeof old->tls_certificate) == 0);
  old->store = "127.0.0.1:0";
  OK(motet_store_serve_options(old, address, sizeof address, &store));
  ASK(strncmp(address, "127.0.0.1:", 10) == 0);
  OK(motet_store_destroy(store));
  old->struct_size = sizeof options + 1;
  ASK(motet_store_serve_options(old, NULL, 0, &store) == MOTET_INVALID);
}

/* Files by which ranks know of one another without Motet. */
static const char *mark(uint32_t of) {
  static char path[4096];
  const char *folder = getenv("MARKS");
  ASK(folder);
  snprintf(path, sizeof path, "%s/%u", folder, of);
  return path;
}

static void leave_mark(void) {
  FILE *file = fopen(mark(rank), "w");
  ASK(file && fclose(file) == 0);
}

static void wait_for_others(void) {
  struct timespec pause = {0, 10000000};
  for (uint32_t other = 0; other < ranks; other++) {
    while (other != rank && access(mark(other), F_OK) != 0) nanosleep(&pause, NULL);
  }
}

/* The last rank goes without a word; the others go on without it. */
static void loss(void) {
  float value = 1;
  OK(motet_allreduce(comm, &value, &value, 1, MOTET_F32, MOTET_SUM, NULL));
  ASK(value == (float)ranks);
  /* It goes when the others have come out of their call, in which they would miss it. */
  if (rank == ranks - 1) {
    wait_for_others();
    _Exit(0);
  }
  leave_mark();
  float *large = input(100000);
  ASK(motet_allreduce(comm, large, large, 100000, MOTET_F32, MOTET_SUM, NULL) == MOTET_LOST);
  ASK(motet_barrier(comm, NULL) == MOTET_LOST);
  /* The first message between two ranks opens connections of its own, for which nobody will come. */
  ASK(motet_receive(comm, large, 1, MOTET_F32, ranks - 1, 9, NULL) == MOTET_LOST);
  OK(motet_survivors(comm, 4000));
  uint32_t left = 0, now = 0, first = 99;
  OK(motet_ranks(comm, &left));
  OK(motet_rank(comm, &now));
  OK(motet_first_rank(comm, now, &first));
  ASK(left == ranks - 1 && now == rank && first == rank);
  ASK(motet_first_rank(comm, left, &first) == MOTET_INVALID);
  value = 1;
  OK(motet_allreduce(comm, &value, &value, 1, MOTET_F32, MOTET_SUM, NULL));
  ASK(value == (float)left);
  free(large);
}

int main(int count, char **words) {
  if (count != 5) return 2;
  rank = (uint32_t)atoi(words[2]);
  ranks = (uint32_t)atoi(words[3]);
  motet_options options;
  motet_options_init(&options);
  options.store = words[1];
  options.store_apart = 1;
  options.rank = rank;
  options.ranks = ranks;
  options.silence_seconds = 60;
  OK(motet_init(&options, &comm));
  uint32_t said = 99;
  OK(motet_rank(comm, &said));
  ASK(said == rank);
  if (strcmp(words[4], "loss") == 0) {
    loss();
  } else if (strcmp(words[4], "last-call") == 0) {
    last_call();
  } else {
    size_t sizes[] = {1, 5, 1003};
    for (size_t i = 0; i < 3; i++) reductions(sizes[i]), copies(sizes[i]);
    at_once();
    pairs();
    mistakes();
    motet_store *store = NULL;
    char address[64];
    OK(motet_store_serve("127.0.0.1:0", "t", address, sizeof address, &store));
    ASK(strncmp(address, "127.0.0.1:", 10) == 0);
    ASK(motet_store_serve("127.0.0.1:0", "t", address, 3, &store) == MOTET_INVALID);
    OK(motet_store_destroy(store));
    store_by_options();
    OK(motet_barrier(comm, NULL));
  }
  OK(motet_destroy(comm));
  printf("rank %u is done\n", rank);
  return 0;
}
