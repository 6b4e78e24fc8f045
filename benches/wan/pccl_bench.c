/* AllReduce with PCCL 1.0: over calls of the slowest rank's time the median, the least and the most, in microseconds,
 * then all of them. Rank 0 serves the master.
 *
 * PCCL's ring is random: by its source, ranks are sorted by UUIDs that are new each time, and 1.0 drops a better ring
 * that its optimizer finds (not tried here). So it goes from one datacenter to the other once in the best case and four
 * times in the worst. A rank looks at its own connections to see whether a neighbour in the ring is in another network
 * of 24 bits. With MOST, a ring that crosses more often is not measured: "again CROSSINGS" is printed, and the caller
 * starts all ranks anew. Each call is PARTS reductions at once over as many connections, which is how PCCL uses more
 * than one.
 *
 * Usage: pccl_bench RANK RANKS MASTER PORT BYTES CALLS PARTS MOST (0: any ring will do)
 * cc -O2 -o pccl_bench pccl_bench.c -I DIR/include -L DIR/lib -Wl,-rpath,DIR/lib -lpccl */
#include <pccl.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { P2P_PORT = 48150, PATIENCE = 100, ESTABLISHED = 1, LITTLE = 1024 };

static void check(pcclResult_t result, const char *what) {
    if (result == pcclSuccess) return;
    fprintf(stderr, "%s: error %d\n", what, (int)result);
    _exit(1);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Returns when all are there. Those who are in have to ask again and again whether somebody wants to come in too; not
 * too often, because each time costs more than waiting until many do. */
static pcclComm_t *join(ccoip_socket_address_t master, int ranks, int parts) {
    pcclCommCreateParams_t wanted = {.master_address = master, .p2p_connection_pool_size = (uint32_t)parts};
    pcclComm_t *group = NULL;
    for (int tries = 0;; tries++) {
        check(pcclCreateCommunicator(&wanted, &group), "create");
        pcclResult_t result = pcclConnect(group);
        if (result == pcclSuccess) break;
        if (tries == PATIENCE) check(result, "connect");
        pcclDestroyCommunicator(group);
        usleep(100000);
    }
    for (int tries = 0, here = 0; here != ranks; tries++) {
        if (tries > 0) sleep(1);
        pcclResult_t result = tries > 0 ? pcclUpdateTopology(group) : pcclSuccess;
        if (tries == PATIENCE) check(pcclTooFewPeers, "not all ranks came");
        if (result == pcclSuccess) check(pcclGetAttribute(group, PCCL_ATTRIBUTE_GLOBAL_WORLD_SIZE, &here), "size");
    }
    return group;
}

/* All ranks must take part, or times are of another world. */
static void reduce(pcclComm_t *group, void *from, void *to, long count, pcclDataType_t type, pcclRedOp_t op, int parts,
                   int ranks) {
    pcclReduceOpDescriptor_t *all = calloc((size_t)parts, sizeof(*all));
    size_t size = type == pcclDouble ? 8 : 4;
    for (int part = 0; part < parts; part++) {
        long start = count * part / parts, end = count * (part + 1) / parts;
        all[part].sendbuf = (char *)from + (size_t)start * size;
        all[part].recvbuf = (char *)to + (size_t)start * size;
        all[part].descriptor.count = (size_t)(end - start);
        all[part].descriptor.op = op;
        all[part].descriptor.tag = (uint64_t)part;
        all[part].descriptor.src_descriptor.datatype = type;
        all[part].descriptor.quantization_options.quantized_datatype = type;
    }
    pcclReduceInfo_t info = {0};
    check(pcclAllReduceMultipleWithRetry(all, (size_t)parts, group, &info, parts), "all-reduce");
    if (info.local_world_size != (uint32_t)ranks) check(pcclTooFewPeers, "a rank was lost");
    free(all);
}

/* How many of this rank's two neighbours are in another network. */
static int far_neighbours(int parts) {
    FILE *table = fopen("/proc/net/tcp", "r");
    char line[512];
    int far = 0;
    while (table && fgets(line, sizeof line, table)) {
        unsigned local, remote, port, state;
        if (sscanf(line, " %*[^:]: %x:%*x %x:%x %x", &local, &remote, &port, &state) != 4) continue;
        if (port == P2P_PORT && state == ESTABLISHED && (ntohl(local) ^ ntohl(remote)) >> 8) far++;
    }
    if (table) fclose(table);
    return far / parts;
}

/* How often the ring crosses from one network to another, each way: every crossing has two ends that see it. */
static int crossings(pcclComm_t *group, int parts, int ranks) {
    float from[LITTLE] = {(float)far_neighbours(parts)}, to[LITTLE] = {0};
    reduce(group, from, to, LITTLE, pcclFloat, pcclSum, 1, ranks);
    return (int)to[0] / 4;
}

/* Without a word to the group: everything is known. The master stays until the others have gone. */
static void end(int rank) {
    fflush(stdout);
    if (rank == 0) sleep(1);
    _exit(0);
}

static void print(double *times, long size, int calls) {
    double *ordered = malloc(sizeof(double) * (size_t)calls);
    memcpy(ordered, times, sizeof(double) * (size_t)calls);
    qsort(ordered, (size_t)calls, sizeof(double), by_value);
    printf("allreduce %ld %.0f %.0f %.0f", size, ordered[calls / 2] * 1e6, ordered[0] * 1e6, ordered[calls - 1] * 1e6);
    for (int call = 0; call < calls; call++) printf(" %.0f", times[call] * 1e6);
    printf("\n");
    free(ordered);
}

int main(int argc, char **argv) {
    if (argc != 9) { fprintf(stderr, "usage: pccl_bench RANK RANKS MASTER PORT BYTES CALLS PARTS MOST\n"); return 2; }
    int rank = atoi(argv[1]), ranks = atoi(argv[2]), calls = atoi(argv[6]), parts = atoi(argv[7]), most = atoi(argv[8]);
    long size = atol(argv[5]), count = size / 4;
    ccoip_socket_address_t master = {.inet.protocol = inetIPv4, .port = (uint16_t)atoi(argv[4])};
    if (inet_pton(AF_INET, argv[3], master.inet.ipv4.data) != 1) check(pcclInvalidArgument, argv[3]);
    check(pcclInit(), "init");
    if (rank == 0) {
        pcclMasterInstance_t *served;
        check(pcclCreateMaster(master, &served), "create master");
        check(pcclRunMaster(served), "run master");
    }
    pcclComm_t *group = join(master, ranks, parts);
    int ring = crossings(group, parts, ranks);
    if (most > 0 && ring > most) {
        if (rank == 0) printf("again %d\n", ring);
        end(rank);
    }
    float *from = malloc((size_t)size), *to = calloc((size_t)count, 4), little[2][LITTLE] = {{0}};
    /* Longer than needed, so that every rank has a part of it. */
    double *times = calloc((size_t)(calls + LITTLE), 8), *slowest = calloc((size_t)(calls + LITTLE), 8);
    for (long i = 0; i < count; i++) from[i] = 1.0f;
    for (int call = 0; call < calls + 3; call++) {
        /* There is no barrier: a small reduction is one. */
        reduce(group, little[0], little[1], LITTLE, pcclFloat, pcclSum, 1, ranks);
        double start = now();
        reduce(group, from, to, count, pcclFloat, pcclSum, parts, ranks);
        if (call >= 3) times[call - 3] = now() - start;
    }
    for (long i = 0; i < count; i++) {
        if (to[i] != (float)ranks) { fprintf(stderr, "element %ld is wrong\n", i); _exit(1); }
    }
    reduce(group, times, slowest, calls + LITTLE, pcclDouble, pcclMax, 1, ranks);
    if (rank == 0) print(slowest, size, calls);
    if (rank == 0) printf("crossings %d\n", ring);
    end(rank);
}
