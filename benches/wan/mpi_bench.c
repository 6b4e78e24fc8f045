/* AllReduce and AllGather with MPI: over calls of the slowest rank's time the median, the least and the most, in
 * microseconds, then all of them.
 * Usage: mpirun -n RANKS mpi_bench COLLECTIVE BYTES CALLS */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks, calls = atoi(argv[3]), reduces = strcmp(argv[1], "allreduce") == 0;
    long size = atol(argv[2]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int count = (int)(size / 4), part = count / ranks;
    float *from = malloc(size), *to = malloc(size);
    double *times = malloc(sizeof(double) * calls), *slowest = malloc(sizeof(double) * calls);
    for (int i = 0; i < count; i++) { from[i] = reduces ? 1.0f : (float)rank; to[i] = 0.0f; }
    for (int call = 0; call < calls + 3; call++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        if (reduces) MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        else MPI_Allgather(from, part, MPI_FLOAT, to, part, MPI_FLOAT, MPI_COMM_WORLD);
        if (call >= 3) times[call - 3] = MPI_Wtime() - start;
    }
    for (int i = 0; i < count; i++) {
        float wanted = reduces ? (float)ranks : (float)(i / part);
        if (to[i] != wanted) { fprintf(stderr, "element %d is wrong\n", i); MPI_Abort(MPI_COMM_WORLD, 1); }
    }
    MPI_Reduce(times, slowest, calls, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        memcpy(times, slowest, sizeof(double) * calls);
        qsort(slowest, calls, sizeof(double), by_value);
        printf("%s %ld %.0f %.0f %.0f", argv[1], size, slowest[calls / 2] * 1e6, slowest[0] * 1e6, slowest[calls - 1] * 1e6);
        for (int call = 0; call < calls; call++) printf(" %.0f", times[call] * 1e6);
        printf("\n");
    }
    MPI_Finalize();
    return 0;
}
