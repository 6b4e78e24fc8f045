/* The C interface on one machine: one rank, of AllReduce or AllGather of so many bytes (the larger buffer), floats, in place unless
 * "apart", over shared memory unless "tcp". Rank 0 prints times in milliseconds: median and least of its calls after two, and the most
 * memory that it had in MiB.
 * cc -O2 -I crates/motet-capi/include -o capi_bench benches/wan/capi_bench.c -L FOLDER -lmotet_capi
 * for rank in 3 2 1 0; do ./capi_bench 127.0.0.1:29500 $rank 4 allreduce 67108864 9 [tcp] [apart] & done; wait
 * With LD_LIBRARY_PATH two versions of the library are measured by turns. */
#define _POSIX_C_SOURCE 200809L
#include "motet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define OK(call)                                              \
  do {                                                        \
    if ((call) != MOTET_OK) {                                 \
      fprintf(stderr, "%s: %s\n", #call, motet_last_error()); \
      exit(1);                                                \
    }                                                         \
  } while (0)

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static int compare(const void *a, const void *b) {
  double left = *(const double *)a, right = *(const double *)b;
  return left < right ? -1 : left > right;
}

int main(int count, char **words) {
  if (count < 7) return 2;
  motet_options options;
  motet_options_init(&options);
  options.store = words[1];
  options.rank = (uint32_t)atoi(words[2]);
  options.ranks = (uint32_t)atoi(words[3]);
  int gathers = strcmp(words[4], "allgather") == 0, calls = atoi(words[6]), apart = 0;
  for (int i = 7; i < count; i++) {
    options.no_shared_memory |= strcmp(words[i], "tcp") == 0;
    apart |= strcmp(words[i], "apart") == 0;
  }
  size_t part = strtoull(words[5], NULL, 10) / sizeof(float) / options.ranks, all = part * options.ranks;
  float *output = malloc(all * sizeof *output), *other = malloc(all * sizeof *other);
  double *times = calloc((size_t)calls, sizeof *times);
  if (!output || !other || !times) return 1;
  /* What was never written takes no memory. */
  for (size_t i = 0; i < all; i++) output[i] = 1;
  for (size_t i = 0; apart && i < all; i++) other[i] = 1;
  const float *input = apart ? other : gathers ? output + options.rank * part : output;
  motet_comm *comm = NULL;
  OK(motet_init(&options, &comm));
  for (int call = -2; call < calls; call++) {
    OK(motet_barrier(comm, NULL));
    double start = now();
    if (gathers)
      OK(motet_allgather(comm, input, output, part, MOTET_F32, NULL));
    else
      OK(motet_allreduce(comm, input, output, all, MOTET_F32, MOTET_SUM, NULL));
    if (call >= 0) times[call] = now() - start;
  }
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  qsort(times, (size_t)calls, sizeof *times, compare);
  if (options.rank == 0) printf("%.1f %.1f %ld\n", times[calls / 2], times[0], usage.ru_maxrss / 1024);
  OK(motet_barrier(comm, NULL));
  OK(motet_destroy(comm));
  free(output), free(other), free(times);
  return 0;
}
