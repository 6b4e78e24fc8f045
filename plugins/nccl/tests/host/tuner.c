/* The tuner, in NCCL's calling order: init, many questions, the end. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void tuner_begin(tuner_t *tuner, void *library, int version, uint64_t id, size_t ranks, size_t nodes) {
  tuner->version = version;
  tuner->plugin = symbol(library, "ncclTunerPlugin_v%d", version);
  tuner->context = NULL;
  int status;
  if (version <= 4) {
    status = ((tuner2_t *)tuner->plugin)->init(ranks, nodes, log_line, &tuner->context);
  } else {
    int each = (int)(ranks / nodes);
    domains_t domains = {(int)nodes, each, each};
    static constants_t constants;
    status = ((tuner6_t *)tuner->plugin)->init(&tuner->context, id, ranks, nodes, log_line, &domains, &constants);
  }
  CHECK(status == 0 && tuner->context != NULL);
}

void tuner_end(tuner_t *tuner) {
  int (*end)(void *) = tuner->version <= 4 ? ((tuner2_t *)tuner->plugin)->destroy : ((tuner6_t *)tuner->plugin)->finalize;
  CHECK(end(tuner->context) == 0);
}

/* Ring and tree everywhere, PAT for AllGather and ReduceScatter, nothing in the network. */
void default_costs(float *costs, int function) {
  for (int it = 0; it < 21; it++) costs[it] = -1.0f;
  for (int protocol = 0; protocol < 3; protocol++) {
    costs[3 + protocol] = 50.0f + protocol;
    if (function == 4) costs[protocol] = 40.0f + protocol;
  }
  if (function == 2 || function == 3) costs[20] = 45.0f;
}

int tuner_ask(tuner_t *tuner, int function, size_t bytes, float *costs, int algorithms, int *channels) {
  float before[21];
  memcpy(before, costs, sizeof(float) * 3 * (size_t)algorithms);
  int status, algorithm = -1, protocol = -1;
  if (tuner->version == 2) {
    status = ((tuner2_t *)tuner->plugin)->decide(tuner->context, function, bytes, 0, 0, 1, &algorithm, &protocol, channels);
    CHECK(status == 0);
    return algorithm < 0 ? -1 : 3 * algorithm + protocol;
  }
  if (tuner->version == 3) {
    status = ((tuner3_t *)tuner->plugin)->decide(tuner->context, function, bytes, 1, (float **)(void *)costs, algorithms, 3, channels);
  } else {
    status = ((tuner4_t *)tuner->plugin)->decide(tuner->context, function, bytes, 1, (float **)(void *)costs, algorithms, 3, 0, channels);
  }
  /* ncclRemoteError: the one error that the tuner may return. */
  if (status == 6) return FAILED;
  CHECK(status == 0);
  int chosen = -1;
  for (int it = 0; it < 3 * algorithms; it++) {
    if (costs[it] != before[it] && !isnan(before[it])) {
      CHECK(before[it] >= 0.0f && costs[it] == 0.0f && chosen == -1);
      chosen = it;
    }
  }
  return chosen;
}

/* print VERSION RANKS NODES [FUNCTION BYTES SHAPE]...: one line for each question. SHAPE is plain, nvls (the switch is
 * cheapest) or none (all excluded). */
int test_tuner_print(int argc, char **argv) {
  CHECK(argc >= 3 && argc % 3 == 0);
  void *library = open_library();
  tuner_t tuner;
  tuner_begin(&tuner, library, atoi(argv[0]), 77, (size_t)atoll(argv[1]), (size_t)atoll(argv[2]));
  for (int it = 3; it < argc; it += 3) {
    int function = atoi(argv[it]), channels = 0;
    size_t bytes = strtoull(argv[it + 1], NULL, 10);
    float costs[21];
    default_costs(costs, function);
    if (strcmp(argv[it + 2], "nvls") == 0) costs[14] = 5.0f;
    if (strcmp(argv[it + 2], "none") == 0)
      for (int entry = 0; entry < 21; entry++) costs[entry] = -1.0f;
    int chosen = tuner_ask(&tuner, function, bytes, costs, 7, &channels);
    size_t chunk = 1000;
    if (tuner.version == 6) {
      int entry = chosen < 0 ? 3 : chosen;
      tuner6_t *plugin = tuner.plugin;
      CHECK(plugin->chunk(tuner.context, function, bytes, entry / 3, entry % 3, 4, &chunk) == 0);
    }
    printf("%d %zu: entry %d, channels %d, chunk %zu\n", function, bytes, chosen, channels, chunk);
  }
  tuner_end(&tuner);
  dlclose(library);
  return 0;
}

static void odd_calls(tuner_t *tuner) {
  float costs[21];
  int channels = 0;
  /* All excluded: nothing may be written. */
  for (int it = 0; it < 21; it++) costs[it] = -1.0f;
  if (tuner->version > 2) CHECK(tuner_ask(tuner, 4, 1 << 20, costs, 7, &channels) == -1 && channels == 0);
  /* Six algorithms, as before 2.23: the seventh row is not NCCL's and must stay. */
  default_costs(costs, 2);
  float last = costs[20];
  tuner_ask(tuner, 2, 1 << 20, costs, 6, &channels);
  CHECK(costs[20] == last);
  static const size_t sizes[] = {0, 1, 3, 1 << 20, (size_t)1 << 40, SIZE_MAX};
  for (int function = -2; function < 20; function++) {
    for (size_t it = 0; it < sizeof sizes / sizeof *sizes; it++) {
      default_costs(costs, function);
      channels = 0;
      tuner_ask(tuner, function, sizes[it], costs, 7, &channels);
      CHECK(channels >= 0 && channels <= 1024);
    }
  }
  for (int it = 0; it < 21; it++) costs[it] = NAN;
  tuner_ask(tuner, 4, 1 << 20, costs, 7, &channels);
  if (tuner->version < 4) return;
  tuner4_t *plugin = tuner->plugin;
  default_costs(costs, 4);
  float before[21];
  memcpy(before, costs, sizeof costs);
  static const int shapes[][2] = {{8, 3}, {7, 4}, {0, 0}, {-1, 3}, {7, -1}, {1 << 30, 3}, {5, 3}};
  for (size_t it = 0; it < sizeof shapes / sizeof *shapes; it++) {
    CHECK(plugin->decide(tuner->context, 4, 1 << 20, 1, (float **)(void *)costs, shapes[it][0], shapes[it][1], 0, &channels) == 0);
    CHECK(memcmp(before, costs, sizeof costs) == 0);
  }
  CHECK(plugin->decide(tuner->context, 4, 1 << 20, 1, NULL, 7, 3, 0, &channels) == 0);
  CHECK(plugin->decide(tuner->context, 4, 1 << 20, 1, (float **)(void *)costs, 7, 3, 0, NULL) == 0);
  CHECK(plugin->decide(NULL, 4, 1 << 20, 1, (float **)(void *)costs, 7, 3, 0, &channels) == 0);
  CHECK(memcmp(before, costs, sizeof costs) == 0);
}

int test_tuner_odd(void) {
  void *library = open_library();
  for (int version = 2; version <= 6; version++) {
    static const size_t shapes[][2] = {{4, 2}, {1, 1}, {7, 3}, {1 << 20, 1 << 17}, {SIZE_MAX, 1}};
    for (size_t it = 0; it < sizeof shapes / sizeof *shapes; it++) {
      tuner_t tuner;
      tuner_begin(&tuner, library, version, 5, shapes[it][0], shapes[it][1]);
      odd_calls(&tuner);
      tuner_end(&tuner);
    }
  }
  tuner6_t *plugin = symbol(library, "ncclTunerPlugin_v%d", 6);
  void *context = NULL;
  CHECK(plugin->init(NULL, 1, 4, 2, log_line, NULL, NULL) == 0);
  CHECK(plugin->init(&context, 1, 4, 0, NULL, NULL, NULL) == 0 && context != NULL); /* no logger, no nodes */
  size_t chunk = 7;
  CHECK(plugin->chunk(context, 4, 1 << 20, -1, 99, 0, &chunk) == 0);
  CHECK(plugin->chunk(context, 4, 1 << 20, 1, 2, 0, NULL) == 0);
  CHECK(plugin->chunk(NULL, 4, 1 << 20, 1, 2, 0, &chunk) == 0 && chunk == 7);
  CHECK(plugin->finalize(context) == 0 && plugin->finalize(NULL) == 0);
  dlclose(library);
  return 0;
}

/* No call that is decided allocates, not even the first of its kind, which is said in the log. */
int test_allocations(void) {
  void *library = open_library();
  unsigned long before = allocations();
  for (int version = 2; version <= 6; version++) {
    tuner_t tuner;
    tuner_begin(&tuner, library, version, 5, 4, 2);
#ifdef __GLIBC__
    CHECK(allocations() > before); /* the counter counts the plugin's */
#endif
    printf("log\n");
    before = allocations();
    odd_calls(&tuner);
    for (int round = 0; round < 1000; round++) {
      float costs[21];
      int channels = 0;
      default_costs(costs, 4);
      costs[14] = round % 2 ? 5.0f : -1.0f;
      tuner_ask(&tuner, 4, (size_t)1 << round % 40, costs, 7, &channels);
      size_t chunk = 0;
      if (version == 6) ((tuner6_t *)tuner.plugin)->chunk(tuner.context, 4, 1 << 20, 1, 2, 2, &chunk);
    }
    CHECK(allocations() == before);
    tuner_end(&tuner);
  }
  dlclose(library);
  return 0;
}

enum { COMMUNICATORS = 64, CALLS = 2000 };
static tuner_t tuners[COMMUNICATORS];
static tuner_t shared_tuner;

/* Every second communicator, and one that both threads use at once, which NCCL forbids. */
static void *ask_many(void *from) {
  for (int call = 0; call < CALLS; call++) {
    for (int it = (int)(intptr_t)from; it < COMMUNICATORS; it += 2) {
      float costs[21];
      int channels = 0;
      default_costs(costs, 4);
      CHECK(tuner_ask(&tuners[it], 4, 1 << 20, costs, 7, &channels) == 5 && channels == 2);
    }
    float costs[21];
    int channels = 0;
    default_costs(costs, 4);
    CHECK(tuner_ask(&shared_tuner, 4, 1 << 20, costs, 7, &channels) == 5 && channels == 2);
  }
  return NULL;
}

int test_many(void) {
  void *library = open_library();
  tuner_begin(&shared_tuner, library, 6, 1000, 4, 2);
  for (int it = 0; it < COMMUNICATORS; it++) tuner_begin(&tuners[it], library, 2 + it % 5, (uint64_t)it, 4, 2);
  pthread_t threads[2];
  for (intptr_t it = 0; it < 2; it++) CHECK(pthread_create(&threads[it], NULL, ask_many, (void *)it) == 0);
  for (int it = 0; it < 2; it++) CHECK(pthread_join(threads[it], NULL) == 0);
  for (int it = 0; it < COMMUNICATORS; it++) tuner_end(&tuners[it]);
  tuner_end(&shared_tuner);
  dlclose(library);
  return 0;
}

static int by_size(const void *left, const void *right) {
  double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

static double now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* ns per decision: medians and 99th percentiles of batches of 16, with the table made anew for each call and the time
 * of that subtracted. */
int test_bench(void) {
  enum { BATCHES = 20000, BATCH = 16 };
  static double times[BATCHES], empty[BATCHES];
  void *library = open_library();
  for (int version = 3; version <= 6; version++) {
    tuner_t tuner;
    tuner_begin(&tuner, library, version, 3, 4, 2);
    float fresh[21], costs[21];
    default_costs(fresh, 4);
    for (int batch = 0; batch < BATCHES; batch++) {
      int channels = 0;
      double start = now_ns();
      for (int it = 0; it < BATCH; it++) {
        memcpy(costs, fresh, sizeof costs);
        __asm__ volatile("" : : "r"(costs) : "memory");
      }
      double middle = now_ns();
      for (int it = 0; it < BATCH; it++) {
        memcpy(costs, fresh, sizeof costs);
        __asm__ volatile("" : : "r"(costs) : "memory");
        size_t bytes = (size_t)1024 << (it * 5 % 16);
        if (version == 3) {
          ((tuner3_t *)tuner.plugin)->decide(tuner.context, 4, bytes, 1, (float **)(void *)costs, 7, 3, &channels);
        } else {
          ((tuner4_t *)tuner.plugin)->decide(tuner.context, 4, bytes, 1, (float **)(void *)costs, 7, 3, 0, &channels);
        }
      }
      double end = now_ns();
      empty[batch] = (middle - start) / BATCH;
      times[batch] = (end - middle) / BATCH;
    }
    qsort(times, BATCHES, sizeof *times, by_size);
    qsort(empty, BATCHES, sizeof *empty, by_size);
    double less = empty[BATCHES / 2];
    printf("v%d: median %.1f ns, 99th percentile %.1f ns per decision\n", version, times[BATCHES / 2] - less,
           times[BATCHES * 99 / 100] - less);
    tuner_end(&tuner);
  }
  dlclose(library);
  return 0;
}
