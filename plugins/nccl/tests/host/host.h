/* NCCL's plugin interfaces as a host sees them, written down from the description in the crate's docs and kept apart
 * from the Rust declarations, so that a mistake in one shows against the other. */
#ifndef MOTET_HOST_H
#define MOTET_HOST_H

#include <stddef.h>
#include <stdint.h>

typedef void (*logger_t)(int level, unsigned long flags, const char *file, int line, const char *format, ...);

typedef struct { int count, least, most; } domains_t;
typedef struct { double values[144]; } constants_t;

typedef struct {
  const char *name;
  int (*init)(size_t ranks, size_t nodes, logger_t log, void **context);
  int (*decide)(void *context, int function, size_t bytes, int collnet, int nvls, int operations, int *algorithm,
                int *protocol, int *channels);
  int (*destroy)(void *context);
} tuner2_t;

typedef struct {
  const char *name;
  int (*init)(size_t ranks, size_t nodes, logger_t log, void **context);
  int (*decide)(void *context, int function, size_t bytes, int operations, float **costs, int algorithms,
                int protocols, int *channels);
  int (*destroy)(void *context);
} tuner3_t;

typedef struct {
  const char *name;
  int (*init)(size_t ranks, size_t nodes, logger_t log, void **context);
  int (*decide)(void *context, int function, size_t bytes, int operations, float **costs, int algorithms,
                int protocols, int registered, int *channels);
  int (*destroy)(void *context);
} tuner4_t;

typedef struct {
  const char *name;
  int (*init)(void **context, uint64_t id, size_t ranks, size_t nodes, logger_t log, domains_t *domains,
              constants_t *constants);
  int (*decide)(void *context, int function, size_t bytes, int operations, float **costs, int algorithms,
                int protocols, int registered, int *channels);
  int (*finalize)(void *context);
  int (*chunk)(void *context, int function, size_t bytes, int algorithm, int protocol, int channels, size_t *chunk);
} tuner6_t; /* v5 ends before `chunk` */

typedef struct {
  const char *name;
  void *init; /* differs by version */
  int (*start)(void *context, void **handle, void *descriptor);
  int (*stop)(void *handle);
  int (*record)(void *handle, int state, void *arguments);
  int (*finalize)(void *context);
} profiler_t;

typedef int (*profiler_init1)(void **context, int *mask);
typedef int (*profiler_init4)(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks, int rank,
                              logger_t log);
typedef int (*profiler_init5)(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,
                              logger_t log);

/* Event descriptors: what all begin with, and the unions we fill, with room for the largest. */
typedef struct { uint64_t type; void *parent; int rank; } head5_t; /* up to v4 the type is a byte, and seven follow */
typedef struct {
  const char *name; uint64_t id, sequence; uint8_t function; const void *from; void *to; size_t count; int root;
  uint8_t datatype; uint32_t operation; size_t traffic; uint8_t channels, warps, algorithm, protocol; int collnet, nvls;
} coll1_t;
typedef struct {
  const char *name; uint64_t id, sequence; const char *function; const void *from; void *to; size_t count; int root;
  const char *datatype; size_t traffic; uint8_t channels, warps; const char *algorithm, *protocol;
} coll2_t;
typedef struct {
  const char *name; uint64_t id, sequence; const char *function; const void *from; void *to; size_t count; int root;
  const char *datatype; uint8_t channels, warps; const char *algorithm, *protocol;
} coll3_t;
typedef struct {
  uint64_t sequence; const char *function; const void *from; void *to; size_t count; int root; const char *datatype;
  uint8_t channels, warps; const char *algorithm, *protocol; void *group; const char *variant; int symmetric;
  uint64_t tag;
} coll4_t; /* v5 added the group, v7 what follows */
typedef struct { uint8_t channel; uint64_t timer; } channel_t;

typedef struct {
  head5_t head;
  union { coll1_t coll1; coll2_t coll2; coll3_t coll3; coll4_t coll4; channel_t channel; uint8_t room[256]; } u;
} event_t;

/* Ends the process with a line that says what did not hold. */
#define CHECK(condition) \
  do { if (!(condition)) fail(__FILE__, __LINE__, #condition); } while (0)

void fail(const char *file, int line, const char *what);
void log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...);
void *open_library(void);
void *symbol(void *library, const char *format, int version);

/* One communicator of any version of the tuner. */
typedef struct { int version; void *plugin; void *context; } tuner_t;
void tuner_begin(tuner_t *tuner, void *library, int version, uint64_t id, size_t ranks, size_t nodes);
void tuner_end(tuner_t *tuner);
/* Asks as NCCL does; says which entry is 0 afterwards, or -1. */
/* The call was not decided, because ranks might have decided it differently. */
enum { FAILED = -2 };
int tuner_ask(tuner_t *tuner, int function, size_t bytes, float *costs, int algorithms, int *channels);
void default_costs(float *costs, int function);

/* How many this thread has made so far; always 0 where libc is not glibc. */
unsigned long allocations(void);

int test_tuner_odd(void);
int test_allocations(void);
int test_tuner_print(int argc, char **argv);
int test_many(void);
int test_fork(void);
int test_reopen(void);
int test_bench(void);
int test_profiler(int argc, char **argv);
int test_profiler_odd(void);
int test_profiler_threads(void);
int test_profiler_graphs(int argc, char **argv);
int test_profiler_graph_threads(int argc, char **argv);
int test_profiler_bench(void);
int test_agent(int argc, char **argv);

#endif
