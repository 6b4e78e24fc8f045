/* An NCCL for tests: ranks exchange data through a file that all of them map, a real tuner plugin is asked as NCCL 2.28 asks
 * it (v5), and a call takes as long as `truth` says, on the clock of the fake CUDA.
 *
 * By itself it takes ring/LL up to 64 KiB and ring/Simple above. Faster are: tree/LL up to 64 KiB (0.6), ring/Simple on one
 * channel above (0.8), nothing from 4 MiB on. What goes wrong is set from outside:
 * FAKE_WRONG=algorithm/protocol gives wrong sums, FAKE_HANG=… never ends, FAKE_DIES=… ends rank 1's process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANKS = 8, ROOM = 1 << 20, ALGORITHMS = 7, PROTOCOLS = 3 };
enum { BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, ALL_TO_ALL };

typedef struct { char bytes[128]; } ncclUniqueId;

typedef struct {
  _Atomic unsigned arrived, round;
  char data[RANKS][ROOM];
} shared_t;

typedef struct {
  const char *name;
  int (*init)(void **, uint64_t, size_t, size_t, void *, void *, void *);
  int (*decide)(void *, int, size_t, int, float **, int, int, int, int *);
  int (*finalize)(void *);
} tuner_t;

typedef struct {
  int rank, ranks;
  shared_t *shared;
  tuner_t *tuner;
  void *context;
  unsigned calls;
} comm_t;

typedef struct {
  comm_t *comm;
  int function, algorithm, protocol, channels;
  const char *from;
  char *to;
  size_t count;
} call_t;

static void (*advance)(double);
static void (*run)(void (*)(void *), const void *, size_t);

int ncclGetVersion(int *version) { *version = 22809; return 0; }
const char *ncclGetErrorString(int status) { return status ? "fake error" : "no error"; }
const char *ncclGetLastError(void *comm) { (void)comm; return ""; }

int ncclGetUniqueId(ncclUniqueId *id) {
  const char *folder = getenv("TMPDIR");
  snprintf(id->bytes, sizeof id->bytes, "%s/fake-nccl-XXXXXX", folder ? folder : "/tmp");
  int file = mkstemp(id->bytes);
  if (file < 0 || ftruncate(file, sizeof(shared_t))) return 2;
  return close(file) ? 2 : 0;
}

static void barrier(comm_t *comm) {
  shared_t *it = comm->shared;
  unsigned round = atomic_load(&it->round);
  if (atomic_fetch_add(&it->arrived, 1) + 1 == (unsigned)comm->ranks) {
    atomic_store(&it->arrived, 0);
    atomic_fetch_add(&it->round, 1);
    return;
  }
  while (atomic_load(&it->round) == round) sched_yield();
}

static void logger(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
  (void)level; (void)flags; (void)file; (void)line; (void)format;
}

int ncclCommInitRank(comm_t **comm, int ranks, ncclUniqueId id, int rank) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
  advance = dlsym(cuda, "fake_advance");
  run = dlsym(cuda, "fake_run");
  comm_t *it = *comm = calloc(1, sizeof(comm_t));
  it->rank = rank;
  it->ranks = ranks;
  int file = open(id.bytes, O_RDWR);
  it->shared = mmap(NULL, sizeof(shared_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  barrier(it);
  if (rank == 0) unlink(id.bytes);
  const char *plugin = getenv("NCCL_TUNER_PLUGIN");
  void *library = plugin ? dlopen(plugin, RTLD_NOW) : NULL;
  it->tuner = library ? dlsym(library, "ncclTunerPlugin_v5") : NULL;
  if (it->tuner) it->tuner->init(&it->context, 7, (size_t)ranks, 1, logger, NULL, NULL);
  return 0;
}

int ncclCommDestroy(comm_t *comm) {
  if (comm->tuner) comm->tuner->finalize(comm->context);
  free(comm);
  return 0;
}

static int is(const char *name, const call_t *call) {
  static const char *algorithms[] = {"tree", "ring"}, *protocols[] = {"ll", "ll128", "simple"};
  const char *wanted = getenv(name);
  char text[32];
  if (!wanted || call->algorithm > 1) return 0;
  snprintf(text, sizeof text, "%s/%s", algorithms[call->algorithm], protocols[call->protocol]);
  return !strcmp(text, wanted);
}

/* How long a call takes, in µs. */
static double truth(const call_t *call, size_t bytes) {
  const int tree = call->algorithm == 0, small = bytes <= 65536;
  double factor = 1.4;
  if (!tree && call->protocol == (small ? 0 : 2)) factor = 1.0;
  if (tree && call->protocol == 0) factor = small ? 0.6 : 2;
  if (!tree && call->protocol == 2 && call->channels == 1 && !small && bytes < (4 << 20)) factor = 0.8;
  unsigned draw = call->comm->calls++ * 2654435761u;
  double noise = 1 + 0.03 * ((draw >> 16) % 1000 / 1000.0 - 0.5);
  return (100 + (double)bytes / 5000) * factor * noise;
}

static void work(void *argument) {
  call_t *it = argument;
  comm_t *comm = it->comm;
  const size_t ranks = (size_t)comm->ranks, rank = (size_t)comm->rank, count = it->count;
  const int f = it->function;
  const size_t in = f == REDUCE_SCATTER || f == ALL_TO_ALL ? count * ranks : count;
  const size_t out = f == ALL_GATHER || f == ALL_TO_ALL ? count * ranks : count;
  if (is("FAKE_HANG", it)) for (;;) pause();
  if (is("FAKE_DIES", it) && comm->rank == 1) _exit(3);
  if (in * 4 > ROOM) abort();
  memcpy(comm->shared->data[rank], it->from, in * 4);
  barrier(comm);
  for (size_t at = 0; at < out && (f != REDUCE || rank == 0); at++) {
    float value = 0;
    if (f == ALL_GATHER) value = ((float *)comm->shared->data[at / count])[at % count];
    else if (f == ALL_TO_ALL) value = ((float *)comm->shared->data[at / count])[rank * count + at % count];
    else if (f == BROADCAST) value = ((float *)comm->shared->data[0])[at];
    else for (size_t from = 0; from < ranks; from++)
      value += ((float *)comm->shared->data[from])[f == REDUCE_SCATTER ? rank * count + at : at];
    if (is("FAKE_WRONG", it) && at == out / 2) value += 1;
    ((float *)it->to)[at] = value;
  }
  barrier(comm);
  advance(truth(it, (in > out ? in : out) * 4));
}

static int enqueue(int function, const void *from, void *to, size_t count, comm_t *comm) {
  float costs[ALGORITHMS][PROTOCOLS];
  for (int at = 0; at < ALGORITHMS * PROTOCOLS; at++) (&costs[0][0])[at] = -1;
  size_t bytes = count * 4 * (function == ALL_GATHER || function == REDUCE_SCATTER ? (size_t)comm->ranks : 1);
  for (int protocol = 0; protocol < PROTOCOLS; protocol++) {
    costs[1][protocol] = 10 + (float)protocol;
    if (function == ALL_REDUCE) costs[0][protocol] = 20 + (float)protocol;
  }
  costs[1][bytes <= 65536 ? 0 : 2] = 5;
  int channels = 0;
  if (comm->tuner && function != ALL_TO_ALL)
    comm->tuner->decide(comm->context, function, bytes, 1, (float **)costs, ALGORITHMS, PROTOCOLS, 0, &channels);
  int best = 0;
  for (int at = 0; at < ALGORITHMS * PROTOCOLS; at++) {
    float cost = (&costs[0][0])[at], least = (&costs[0][0])[best];
    if (cost >= 0 && (least < 0 || cost < least)) best = at;
  }
  call_t call = {comm, function, best / PROTOCOLS, best % PROTOCOLS, channels, from, to, count};
  run(work, &call, sizeof call);
  return 0;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, comm_t *comm, void *stream) {
  (void)type; (void)op; (void)stream;
  return enqueue(ALL_REDUCE, from, to, count, comm);
}
int ncclAllGather(const void *from, void *to, size_t count, int type, comm_t *comm, void *stream) {
  (void)type; (void)stream;
  return enqueue(ALL_GATHER, from, to, count, comm);
}
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, comm_t *comm, void *stream) {
  (void)type; (void)op; (void)stream;
  return enqueue(REDUCE_SCATTER, from, to, count, comm);
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, comm_t *comm, void *stream) {
  (void)type; (void)root; (void)stream;
  return enqueue(BROADCAST, from, to, count, comm);
}
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, comm_t *comm, void *stream) {
  (void)type; (void)op; (void)root; (void)stream;
  return enqueue(REDUCE, from, to, count, comm);
}

/* An AllToAll comes as sends and receives in a group, the first of which have the whole buffers. */
static const void *sent;
static void *received;
static size_t part;
static comm_t *grouped;

int ncclGroupStart(void) { sent = NULL; received = NULL; return 0; }
int ncclSend(const void *from, size_t count, int type, int peer, comm_t *comm, void *stream) {
  (void)type; (void)stream;
  if (peer == 0) sent = from;
  part = count;
  grouped = comm;
  return 0;
}
int ncclRecv(void *to, size_t count, int type, int peer, comm_t *comm, void *stream) {
  (void)count; (void)type; (void)comm; (void)stream;
  if (peer == 0) received = to;
  return 0;
}
int ncclGroupEnd(void) { return enqueue(ALL_TO_ALL, sent, received, part, grouped); }
