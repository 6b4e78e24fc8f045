/* Rank 0 of a job of four with two stages and two replicas: parameters gathered and gradients reduced with rank 1, activations exchanged
   with rank 2. ITERATIONS of that, and then a call that NCCL refuses. */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake.h"

#define CHECK(call) \
  do { \
    int status = (call); \
    if (status) { \
      fprintf(stderr, "%s: %d\n", #call, status); \
      exit(1); \
    } \
  } while (0)

enum { FLOAT = 7, BF16 = 9, SUM = 0 };

int cuStreamSynchronize(void *stream);

int main(int count, char **arguments) {
  if (count != 3) return 2;
  int iterations = atoi(arguments[1]);
  fake_count_in(arguments[2]);
  static char buffer[4096];
  void *replicas, *stages, *first = fake_stream(), *second = fake_stream();
  CHECK(ncclCommInitRank(&replicas, 2, (ncclUniqueId){"0,1"}, 0));
  CHECK(ncclCommInitRank(&stages, 2, (ncclUniqueId){"0,2"}, 0));
  for (int i = 0; i < iterations; i++) {
    CHECK(ncclAllGather(buffer, buffer, 100, BF16, replicas, first));
    CHECK(ncclBcast(buffer, 50, FLOAT, 0, replicas, first));
    CHECK(cuStreamSynchronize(first));
    usleep(1000);
    CHECK(ncclGroupStart());
    CHECK(ncclSend(buffer, 10, BF16, 1, stages, second));
    CHECK(ncclRecv(buffer, 20, BF16, 1, stages, second));
    CHECK(ncclGroupEnd());
    CHECK(cuStreamSynchronize(second));
    usleep(1000);
    CHECK(ncclReduceScatter(buffer, buffer, 100, FLOAT, SUM, replicas, first));
    CHECK(cuStreamSynchronize(first));
    if (motet_shim_iteration) motet_shim_iteration();
  }
  printf("refused with %d\n", ncclAllReduce(buffer, buffer, 13, FLOAT, SUM, replicas, first));
  CHECK(cuStreamSynchronize(first));
  CHECK(ncclCommDestroy(stages));
  CHECK(ncclCommDestroy(replicas));
  return 0;
}
