/* A host that loads the plugins as NCCL does, without NCCL and without a GPU: host LIBRARY TEST [ARGUMENT...].
 * Exit status 0 if all held. What the plugin logs goes to stdout, one line each. */
#define _GNU_SOURCE
#include "host.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *library_path;

void fail(const char *file, int line, const char *what) {
  fflush(stdout);
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  _exit(1);
}

void log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...) {
  (void)line;
  char text[4096];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  CHECK(length > 0 && file != NULL);
  printf("log %d %lx %s\n", level, flags, text);
}

void *open_library(void) {
  void *library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) fail(library_path, 0, dlerror());
  return library;
}

void *symbol(void *library, const char *format, int version) {
  char name[64];
  snprintf(name, sizeof name, format, version);
  void *found = dlsym(library, name);
  if (found == NULL) fail(name, 0, "is not there");
  return found;
}

/* The names that a libnccl.so looks for must be among ours: the strings in its file say which. */
static int test_symbols(void) {
  void *library = open_library();
  for (int version = 2; version <= 6; version++) {
    tuner2_t *tuner = symbol(library, "ncclTunerPlugin_v%d", version);
    CHECK(strcmp(tuner->name, "Motet") == 0);
  }
  for (int version = 1; version <= 7; version++) {
    profiler_t *profiler = symbol(library, "ncclProfiler_v%d", version);
    CHECK(strcmp(profiler->name, "Motet") == 0);
    CHECK(profiler->init && profiler->start && profiler->stop && profiler->record && profiler->finalize);
  }
  CHECK(dlsym(library, "ncclTunerPlugin_v7") == NULL);
  dlclose(library);
  return 0;
}

int test_reopen(void) {
  for (int round = 0; round < 20; round++) {
    void *library = open_library();
    tuner_t tuner;
    tuner_begin(&tuner, library, 2 + round % 5, 1, 4, 2);
    float costs[21];
    int channels = 0;
    default_costs(costs, 4);
    CHECK(tuner_ask(&tuner, 4, 1 << 20, costs, 7, &channels) == 5);
    tuner_end(&tuner);
    profiler_t *profiler = symbol(library, "ncclProfiler_v%d", 6);
    void *context = NULL;
    int mask = 0;
    CHECK(((profiler_init5)profiler->init)(&context, 1, &mask, "world", 2, 4, 0, log_line) == 0);
    if (context != NULL) CHECK(profiler->finalize(context) == 0);
    dlclose(library);
  }
  return 0;
}

/* A child has none of the parent's threads, and whatever locks they held. It must decide, and end. */
int test_fork(void) {
  void *library = open_library();
  tuner_t tuner;
  tuner_begin(&tuner, library, 6, 1, 4, 2);
  profiler_t *profiler = symbol(library, "ncclProfiler_v%d", 6);
  void *context = NULL;
  int mask = 0;
  CHECK(((profiler_init5)profiler->init)(&context, 1, &mask, "world", 2, 4, 0, log_line) == 0);
  fflush(stdout);
  for (int round = 0; round < 20; round++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(20);
      tuner_t inner;
      tuner_begin(&inner, library, 6, 2, 4, 2);
      float costs[21];
      int channels = 0;
      default_costs(costs, 4);
      CHECK(tuner_ask(&tuner, 4, 1 << 20, costs, 7, &channels) == 5);
      default_costs(costs, 4);
      CHECK(tuner_ask(&inner, 4, 1 << 20, costs, 7, &channels) == 5);
      void *other = NULL;
      CHECK(((profiler_init5)profiler->init)(&other, 2, &mask, NULL, 2, 4, 0, log_line) == 0);
      CHECK(other == NULL);
      event_t event;
      memset(&event, 0, sizeof event);
      event.head.type = 256;
      void *handle = &event;
      CHECK(profiler->start(context, &handle, &event) == 0 && handle == NULL);
      tuner_end(&inner);
      tuner_end(&tuner);
      CHECK(profiler->finalize(context) == 0);
      _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  tuner_end(&tuner);
  if (context != NULL) CHECK(profiler->finalize(context) == 0);
  dlclose(library);
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3) fail("host", 0, "host LIBRARY TEST [ARGUMENT...]");
  library_path = argv[1];
  const char *test = argv[2];
  if (strcmp(test, "symbols") == 0) return test_symbols();
  if (strcmp(test, "print") == 0) return test_tuner_print(argc - 3, argv + 3);
  if (strcmp(test, "odd") == 0) return test_tuner_odd();
  if (strcmp(test, "allocations") == 0) return test_allocations();
  if (strcmp(test, "many") == 0) return test_many();
  if (strcmp(test, "fork") == 0) return test_fork();
  if (strcmp(test, "reopen") == 0) return test_reopen();
  if (strcmp(test, "bench") == 0) return test_bench();
  if (strcmp(test, "profiler") == 0) return test_profiler(argc - 3, argv + 3);
  if (strcmp(test, "profiler-odd") == 0) return test_profiler_odd();
  if (strcmp(test, "profiler-threads") == 0) return test_profiler_threads();
  if (strcmp(test, "profiler-graphs") == 0) return test_profiler_graphs(argc - 3, argv + 3);
  if (strcmp(test, "profiler-graph-threads") == 0) return test_profiler_graph_threads(argc - 3, argv + 3);
  if (strcmp(test, "profiler-bench") == 0) return test_profiler_bench();
  if (strcmp(test, "agent") == 0) return test_agent(argc - 3, argv + 3);
  fail(test, 0, "is a test");
  return 1;
}
