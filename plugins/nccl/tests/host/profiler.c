/* The profiler, with events in NCCL's order: group, collective start and stop on the calling thread; the channels of
 * its kernel later, on another. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COLLECTIVE = 2, CHANNEL = 64, STOP = 22 };

typedef struct { int version; profiler_t *plugin; void *context; int mask, *shared, shared_by; } prof_t;

static void begin(prof_t *it, void *library, int version, uint64_t id, int rank) {
  it->version = version;
  it->plugin = symbol(library, "ncclProfiler_v%d", version);
  it->context = NULL;
  it->mask = 0;
  it->shared = &it->mask;
  it->shared_by = 1;
  int status;
  if (version <= 3) status = ((profiler_init1)it->plugin->init)(&it->context, &it->mask);
  else if (version == 4) status = ((profiler_init4)it->plugin->init)(&it->context, &it->mask, "world", id, 2, 4, rank, log_line);
  else status = ((profiler_init5)it->plugin->init)(&it->context, id, &it->mask, "world", 2, 4, rank, log_line);
  CHECK(status == 0);
}

static void *start(prof_t *it, event_t *event) {
  void *handle = (void *)0x1234; /* must be overwritten */
  if (it->version <= 4) {
    uint8_t type = (uint8_t)event->head.type;
    memset(&event->head.type, 0xee, sizeof event->head.type); /* padding may be anything */
    memcpy(&event->head, &type, sizeof type);
  }
  CHECK(it->plugin->start(it->context, &handle, event) == 0 && handle != (void *)0x1234);
  return handle;
}

/* Up to 2.27 NCCL reports the calls of a group only if it has been given a handle for the group. */
static void group_of(prof_t *it, int captured) {
  event_t event;
  memset(&event, 0, sizeof event);
  event.head.type = it->version <= 4 ? 1 : 256;
  if (it->version >= 5) event.u.room[0] = (uint8_t)captured;
  void *handle = start(it, &event);
  CHECK((handle != NULL) == (it->version <= 4 && it->context != NULL));
  if (handle != NULL) CHECK(it->plugin->stop(handle) == 0);
}

static void group(prof_t *it) { group_of(it, 0); }

/* What NCCL says of a call that is profiled, after its group's event; `captured` follows root and stream. */
static void api_of(prof_t *it, int captured) {
  if (it->version < 5) return;
  event_t event;
  memset(&event, 0, sizeof event);
  event.head.type = 512;
  event.u.room[40] = (uint8_t)captured;
  CHECK(start(it, &event) == NULL);
}

static void *collective_by(prof_t *it, uint64_t sequence, uint8_t channels, const char *algorithm) {
  event_t event;
  memset(&event, 0, sizeof event);
  event.head.type = COLLECTIVE;
  const size_t count = 262144;
  if (it->version == 1) {
    event.u.coll1 = (coll1_t){.sequence = sequence, .function = 4, .count = count, .datatype = 7, .channels = channels, .algorithm = 1, .protocol = 2};
  } else if (it->version == 2) {
    event.u.coll2 = (coll2_t){.sequence = sequence, .function = "AllReduce", .count = count, .datatype = "ncclFloat32", .traffic = 9, .channels = channels, .algorithm = algorithm, .protocol = "SIMPLE"};
  } else if (it->version == 3) {
    event.u.coll3 = (coll3_t){.sequence = sequence, .function = "AllReduce", .count = count, .datatype = "ncclFloat32", .channels = channels, .algorithm = algorithm, .protocol = "SIMPLE"};
  } else {
    event.u.coll4 = (coll4_t){.sequence = sequence, .function = "AllReduce", .count = count, .datatype = "ncclFloat32", .channels = channels, .algorithm = algorithm, .protocol = "SIMPLE", .variant = "x", .tag = 9};
  }
  return start(it, &event);
}

static void *collective(prof_t *it, uint64_t sequence, uint8_t channels) {
  return collective_by(it, sequence, channels, "RING");
}

static void *channel_start(prof_t *it, void *parent, uint8_t channel, uint64_t timer) {
  event_t event;
  memset(&event, 0, sizeof event);
  event.head.type = CHANNEL;
  event.head.parent = parent;
  event.u.channel = (channel_t){channel, timer};
  return start(it, &event);
}

static void channel_stop(prof_t *it, void *handle, uint64_t timer) {
  if (it->version >= 4) CHECK(it->plugin->record(handle, STOP, &timer) == 0);
  CHECK(it->plugin->stop(handle) == 0);
}

typedef struct { prof_t *prof; void **handles; int count; uint8_t channels; } kernels_t;

/* NCCL's proxy thread: the events of all kernels, after their collectives were enqueued. */
static void *run_kernels(void *argument) {
  kernels_t *work = argument;
  for (int call = 0; call < work->count; call++) {
    if (work->handles[call] == NULL) continue;
    uint64_t base = 1000000 + 100000 * (uint64_t)call;
    void *channels[64];
    for (uint8_t it = 0; it < work->channels; it++)
      channels[it] = channel_start(work->prof, work->handles[call], it, base + it);
    for (uint8_t it = 0; it < work->channels; it++)
      if (channels[it] != NULL) channel_stop(work->prof, channels[it], base + 5000 + 10 * it);
  }
  return NULL;
}

/* profiler VERSION CALLS CHANNELS: that many AllReduces of 1 MiB; kernel k takes 5000 + 10 * (channels - 1) ns. */
int test_profiler(int argc, char **argv) {
  CHECK(argc == 3);
  int version = atoi(argv[0]), calls = atoi(argv[1]);
  uint8_t channels = (uint8_t)atoi(argv[2]);
  void *library = open_library();
  tuner_t tuner;
  tuner_begin(&tuner, library, 6, 77, 4, 2);
  prof_t prof;
  begin(&prof, library, version, 77, 3);
  if (prof.context == NULL) CHECK(prof.mask == 0); /* told not to profile: the host goes on as NCCL does */
  void **handles = calloc((size_t)calls, sizeof *handles);
  int profiled = 0;
  for (int call = 0; call < calls; call++) {
    int mask = prof.mask; /* NCCL reads it before the group, and goes by it to the end of the kernel */
    group(&prof);
    float costs[21];
    int ignored = 0;
    default_costs(costs, 4);
    tuner_ask(&tuner, 4, 1 << 20, costs, 7, &ignored);
    if (!(mask & COLLECTIVE)) continue;
    handles[call] = collective(&prof, (uint64_t)call, channels);
    CHECK(handles[call] != NULL && prof.plugin->stop(handles[call]) == 0);
    profiled++;
    if (call % 64 == 63 || call == calls - 1) {
      kernels_t work = {&prof, handles, call + 1, channels};
      pthread_t thread;
      CHECK(pthread_create(&thread, NULL, run_kernels, &work) == 0 && pthread_join(thread, NULL) == 0);
      memset(handles, 0, sizeof *handles * (size_t)(call + 1));
    }
  }
  kernels_t work = {&prof, handles, calls, channels};
  if (version >= 3) run_kernels(&work);
  printf("profiled %d\n", profiled);
  free(handles);
  if (prof.context != NULL) CHECK(prof.plugin->finalize(prof.context) == 0);
  tuner_end(&tuner);
  dlclose(library);
  return 0;
}

/* Events that end twice, late, never, or are none of ours; more collectives than there is room for. */
int test_profiler_odd(void) {
  void *library = open_library();
  prof_t prof, other;
  begin(&prof, library, 7, 77, 0);
  begin(&other, library, 7, 78, 1);
  CHECK(prof.context != NULL && other.context != NULL && prof.context != other.context);
  void *first = collective(&prof, 0, 2);
  for (int it = 0; it < 1000; it++) CHECK(collective(&prof, 1, 2) != NULL); /* none of them ends */
  CHECK(prof.plugin->stop(first) == 0 && channel_start(&prof, first, 0, 5) == NULL);
  void *late = collective(&prof, 2, 1);
  void *channel = channel_start(&prof, late, 0, 100);
  CHECK(channel != NULL && prof.plugin->stop(late) == 0);
  for (int it = 0; it < 3; it++) channel_stop(&prof, channel, 300);
  for (int it = 0; it < 3; it++) CHECK(prof.plugin->stop(late) == 0);
  void *zero = collective(&prof, 3, 1);
  channel = channel_start(&prof, zero, 0, 0); /* a timer that was not written */
  CHECK(prof.plugin->stop(zero) == 0);
  channel_stop(&prof, channel, 0);
  event_t event;
  memset(&event, 0, sizeof event);
  for (int type = 0; type < 70; type++) {
    event.head.type = type < 64 ? (uint64_t)1 << type : (uint64_t)type;
    event.head.parent = &event;
    if (event.head.type == COLLECTIVE) continue; /* its texts would be null: below */
    CHECK(start(&prof, &event) == NULL);
  }
  event.head.type = COLLECTIVE;
  CHECK(start(&prof, &event) == NULL);
  event.u.coll4 = (coll4_t){.function = "SendRecvOrOther", .datatype = "ncclFloat32"};
  CHECK(start(&prof, &event) == NULL);
  void *odd[] = {NULL, (void *)1, (void *)3, &event, (void *)~(uintptr_t)0, (void *)0x3fffffffffffff};
  uint64_t timer = 5;
  for (size_t it = 0; it < sizeof odd / sizeof *odd; it++) {
    CHECK(prof.plugin->stop(odd[it]) == 0 && prof.plugin->record(odd[it], STOP, &timer) == 0);
    CHECK(prof.plugin->record(odd[it], STOP, NULL) == 0 && prof.plugin->record(odd[it], 9, NULL) == 0);
  }
  void *handle = NULL;
  event.head.type = 256;
  CHECK(prof.plugin->start(NULL, &handle, &event) == 0 && prof.plugin->start(prof.context, NULL, &event) == 0);
  CHECK(prof.plugin->start(prof.context, &handle, NULL) == 0 && prof.plugin->start(&event, &handle, &event) == 0);
  CHECK(((profiler_init5)prof.plugin->init)(NULL, 1, NULL, NULL, 1, 1, 0, NULL) == 0);
  CHECK(prof.plugin->finalize(prof.context) == 0);
  CHECK(prof.plugin->stop(late) == 0); /* after its communicator */
  prof_t again;
  begin(&again, library, 5, 79, 0);
  CHECK(again.plugin->stop(zero) == 0);
  CHECK(again.plugin->finalize(again.context) == 0 && other.plugin->finalize(other.context) == 0);
  CHECK(other.plugin->finalize(NULL) == 0);
  dlclose(library);
  return 0;
}

enum { THREADED = 6000, AHEAD = 100 }; /* fewer than the worker's queue holds, however late it comes */
static prof_t threaded;
static _Atomic(void *) handed[THREADED];
static _Atomic int finished;

/* NCCL's thread, behind the calling one by up to AHEAD collectives; the channels of call k take 500 + k ns. */
static void *run_threaded(void *nothing) {
  for (uint64_t call = 0; call < THREADED; call++) {
    void *handle;
    while ((handle = handed[call]) == NULL) sched_yield();
    void *channels[3];
    for (uint8_t it = 0; it < 3; it++) channels[it] = channel_start(&threaded, handle, it, 1000 + it);
    for (uint8_t it = 0; it < 3; it++) channel_stop(&threaded, channels[it], 1498 + call + it);
    finished++;
  }
  return nothing;
}

int test_profiler_threads(void) {
  void *library = open_library();
  begin(&threaded, library, 7, 77, 0);
  CHECK(threaded.context != NULL);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, run_threaded, NULL) == 0);
  for (int call = 0; call < THREADED; call++) {
    while (call - finished > AHEAD) sched_yield();
    group(&threaded);
    void *handle = collective(&threaded, (uint64_t)call, 3);
    /* NCCL may see the kernel before it says that the collective is enqueued. */
    if (call % 2) CHECK(threaded.plugin->stop(handle) == 0);
    handed[call] = handle;
    if (!(call % 2)) CHECK(threaded.plugin->stop(handle) == 0);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(threaded.plugin->finalize(threaded.context) == 0);
  dlclose(library);
  return 0;
}

/* How NCCL 2.26 to 2.30 finds a kernel's times: the host counts kernels of a channel, the GPU counts them too and leaves
 * its count in one of 64 places if the kernel is profiled. A captured call counts on the host at every replay if it
 * is profiled, else once when it is captured. What is still waited for at the end would wait for ever. */
typedef struct { uint64_t host, gpu, place[64], waiting[4096]; int count; } counters_t;

static void look(counters_t *it) {
  int left = 0;
  for (int i = 0; i < it->count; i++)
    if (it->waiting[i] > it->place[it->waiting[i] % 64]) it->waiting[left++] = it->waiting[i];
  it->count = left;
}

static void kernel(counters_t *it, int profiled) {
  it->gpu++;
  if (profiled) it->place[it->gpu % 64] = it->gpu;
  look(it);
}

static void wait_for(counters_t *it) {
  CHECK(it->count < 4096);
  it->waiting[it->count++] = ++it->host;
}

/* NCCL's mask is one for all communicators, and read by all threads. */
static int read_mask(prof_t *prof) { return __atomic_load_n(prof->shared, __ATOMIC_RELAXED) & CHANNEL; }

static int plain_call(prof_t *prof, counters_t *all) {
  int mask = read_mask(prof);
  group(prof);
  if (mask) api_of(prof, 0);
  if (mask) wait_for(all);
  else all->host++;
  kernel(all, mask);
  return mask != 0;
}

typedef struct { int before, captured, after; } profiled_t;

/* Graphs of forty calls, replayed, with plain calls between. */
static void graphs(prof_t *prof, counters_t *all, int turns, profiled_t *profiled) {
  for (int turn = 0; turn < turns; turn++) {
    int masks[40];
    for (int call = 0; call < 40; call++) {
      masks[call] = read_mask(prof);
      if (turn + call == 0 && prof->shared_by > 1) usleep(20); /* the system may stop a thread anywhere */
      group_of(prof, 1);
      if (masks[call]) api_of(prof, 1);
      if (masks[call]) profiled->captured++;
      else all->host++;
    }
    for (int replay = 0; replay < 3; replay++) {
      for (int call = 0; call < 40; call++) if (masks[call]) wait_for(all);
      for (int call = 0; call < 40; call++) kernel(all, masks[call]);
    }
    for (int call = 0; call < 25; call++) profiled->after += plain_call(prof, all);
  }
}

/* profiler-graphs VERSION BEFORE: so many plain calls, then graphs. */
int test_profiler_graphs(int argc, char **argv) {
  CHECK(argc == 2);
  void *library = open_library();
  prof_t prof;
  begin(&prof, library, atoi(argv[0]), 77, 3);
  CHECK(prof.context != NULL);
  static counters_t all;
  profiled_t profiled = {0, 0, 0};
  for (int call = atoi(argv[1]); call > 0; call--) profiled.before += plain_call(&prof, &all);
  graphs(&prof, &all, 20, &profiled);
  printf("profiled %d before, %d captured, %d after, %d waited for\n", profiled.before, profiled.captured, profiled.after, all.count);
  CHECK(prof.plugin->finalize(prof.context) == 0);
  dlclose(library);
  return 0;
}

typedef struct { prof_t prof; counters_t all; _Atomic int *stop; } busy_t;

static void *run_plain(void *argument) {
  busy_t *work = argument;
  while (!*work->stop) plain_call(&work->prof, &work->all);
  return NULL;
}

/* profiler-graph-threads VERSION ROUNDS: one thread captures while another, with its own communicator, makes plain calls,
 * so that the mask may be switched at any moment of the first capture. */
int test_profiler_graph_threads(int argc, char **argv) {
  CHECK(argc == 2);
  void *library = open_library();
  int waited = 0, which[2] = {0, 0};
  for (int round = 0; round < atoi(argv[1]); round++) {
    static counters_t all;
    static busy_t busy;
    _Atomic int stop = 0;
    memset(&all, 0, sizeof all);
    memset(&busy, 0, sizeof busy);
    prof_t prof;
    begin(&prof, library, atoi(argv[0]), 77, 3);
    begin(&busy.prof, library, atoi(argv[0]), 78, 3);
    CHECK(prof.context != NULL && busy.prof.context != NULL);
    busy.prof.shared = &prof.mask;
    prof.shared_by = 2;
    busy.stop = &stop;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_plain, &busy) == 0);
    profiled_t profiled = {0, 0, 0};
    for (int call = 0; call < 200 + round % 16; call++) profiled.before += plain_call(&prof, &all);
    graphs(&prof, &all, 3, &profiled);
    stop = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    waited += all.count + busy.all.count;
    which[profiled.captured > 0]++;
    CHECK(prof.plugin->finalize(prof.context) == 0 && busy.prof.plugin->finalize(busy.prof.context) == 0);
  }
  printf("%d unprofiled, %d profiled, %d waited for\n", which[0], which[1], waited);
  dlclose(library);
  return 0;
}

/* What a profiled call costs on NCCL's threads: group, collective, and eight channels. */
int test_profiler_bench(void) {
  enum { CALLS = 200000, CHANNELS = 8 };
  void *library = open_library();
  prof_t prof;
  begin(&prof, library, 6, 77, 0);
  CHECK(prof.context != NULL);
  struct timespec from, to;
  double spent[2] = {0, 0};
  for (int call = 0; call < CALLS; call++) {
    clock_gettime(CLOCK_MONOTONIC, &from);
    group(&prof);
    void *handle = collective(&prof, (uint64_t)call, CHANNELS);
    prof.plugin->stop(handle);
    clock_gettime(CLOCK_MONOTONIC, &to);
    spent[0] += (double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec);
    void *channels[CHANNELS];
    for (uint8_t it = 0; it < CHANNELS; it++) channels[it] = channel_start(&prof, handle, it, 1000);
    for (uint8_t it = 0; it < CHANNELS; it++) channel_stop(&prof, channels[it], 2000);
    clock_gettime(CLOCK_MONOTONIC, &from);
    spent[1] += (double)(from.tv_sec - to.tv_sec) * 1e9 + (double)(from.tv_nsec - to.tv_nsec);
    if (call % 1000 == 0) usleep(2000); /* the queue is not what is measured */
  }
  printf("profiled: %.0f ns per call on the calling thread, %.0f ns on NCCL's own\n", spent[0] / CALLS, spent[1] / CALLS);
  CHECK(prof.plugin->finalize(prof.context) == 0);
  dlclose(library);
  return 0;
}

enum { JOB = 4, SLACK = 8 };

/* How many calls each rank has done, and whether one failed. */
typedef struct { _Atomic int done[JOB]; _Atomic int failed[JOB]; signed char chosen[]; } job_t;

/* One rank: asks, does the call as it was told, and says how long it took, a little differently on each rank. */
static void run_rank(job_t *job, int rank, int calls, int change) {
  void *library = open_library();
  prof_t prof;
  begin(&prof, library, 6, 77, rank);
  tuner_t tuner;
  tuner_begin(&tuner, library, 6, 77, JOB, 2);
  for (int call = 0; call < calls; call++) {
    int mask = prof.mask, ignored = 0;
    group(&prof);
    float costs[21];
    default_costs(costs, 4);
    int entry = tuner_ask(&tuner, 4, 1 << 20, costs, 7, &ignored);
    if (entry == FAILED) {
      /* As a job does: it ends. The others must not wait for it here, as they would in NCCL until they are aborted. */
      printf("rank %d: call %d fails\n", rank, call);
      job->failed[rank] = 1;
      job->done[rank] = calls + SLACK;
      break;
    }
    job->chosen[JOB * call + rank] = (signed char)entry;
    if (mask & COLLECTIVE) {
      int tree = entry == 2;
      void *handle = collective_by(&prof, (uint64_t)call, 1, tree ? "TREE" : "RING");
      CHECK(handle != NULL && prof.plugin->stop(handle) == 0);
      uint64_t begun = 1000000 * (uint64_t)call, us = tree ? 150 : entry < 0 ? 120 : call < change ? 80 : 300;
      void *channel = channel_start(&prof, handle, 0, begun);
      if (channel != NULL) channel_stop(&prof, channel, begun + us * (1000 + 30 * (uint64_t)rank));
    }
    job->done[rank] = call + 1;
    usleep(200);
    /* A collective ends when all have come; the host runs a few calls ahead. */
    for (int other = 0; other < JOB; other++)
      while (job->done[other] < call - SLACK) sched_yield();
  }
  tuner_end(&tuner);
  CHECK(prof.plugin->finalize(prof.context) == 0);
  dlclose(library);
}

/* agent CALLS CHANGE [KILL]: a job of four ranks, a process each, whose ring gets slow at call CHANGE, unless NCCL
 * chooses it by itself. Every rank must choose the same for every call; prints which calls were the first of a new choice. With KILL, rank 0 leads and is
 * killed at that call; the others must go on, or fail, and not wait for ever. */
int test_agent(int argc, char **argv) {
  CHECK(argc == 2 || argc == 3);
  int kill_at = argc == 3 ? atoi(argv[2]) : -1;
  int calls = atoi(argv[0]), change = atoi(argv[1]);
  size_t size = sizeof(job_t) + (size_t)(JOB * calls);
  job_t *job = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(job != MAP_FAILED);
  pid_t children[JOB];
  for (int rank = 0; rank < JOB; rank++) {
    fflush(stdout);
    children[rank] = fork();
    CHECK(children[rank] >= 0);
    if (children[rank] == 0) {
      alarm(120);
      if (kill_at >= 0 && rank > 0) usleep(500000);
      run_rank(job, rank, calls, change);
      fflush(stdout);
      _exit(0);
    }
  }
  if (kill_at >= 0) {
    while (job->done[0] < kill_at) usleep(100);
    CHECK(kill(children[0], SIGKILL) == 0);
    int status = 0;
    CHECK(waitpid(children[0], &status, 0) == children[0] && WIFSIGNALED(status));
    job->failed[0] = 1;
    job->done[0] = calls + SLACK;
  }
  for (int rank = kill_at >= 0; rank < JOB; rank++) {
    int status = 0;
    CHECK(waitpid(children[rank], &status, 0) == children[rank]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  for (int call = 0; call < calls; call++) {
    signed char *chosen = job->chosen + JOB * call;
    /* What a rank that failed has not done is 0, which no call chooses. */
    for (int rank = 0; rank < JOB; rank++)
      for (int other = 0; other < rank; other++) {
        int both = (!job->failed[rank] || chosen[rank] != 0) && (!job->failed[other] || chosen[other] != 0);
        if (both) CHECK(chosen[rank] == chosen[other]);
      }
    if (chosen[0] == 0) break;
    if (call == 0 || chosen[0] != chosen[-JOB]) printf("from %d entry %d\n", call, chosen[0]);
  }
  return 0;
}
