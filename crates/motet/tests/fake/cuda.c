/* A CUDA driver for tests: one GPU whose memory is the process's own, whose work is done at once, and whose clock goes on
 * only when someone says so. Just the functions that Motet calls, with the types of NVIDIA's reference. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { void (*work)(void *); void *argument; } item_t;
typedef struct { item_t *items; size_t count; } graph_t;

static double now_us = 1.0;
static graph_t *capturing;

/* For the libraries that put work into streams. */
void fake_advance(double us) { now_us += us; }

void fake_run(void (*work)(void *), const void *argument, size_t size) {
  if (!capturing) {
    work((void *)argument);
    return;
  }
  void *copy = malloc(size);
  memcpy(copy, argument, size);
  capturing->items = realloc(capturing->items, (capturing->count + 1) * sizeof(item_t));
  capturing->items[capturing->count++] = (item_t){work, copy};
}

int cuInit(unsigned flags) { return (int)flags; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuGetErrorName(int status, const char **name) { (void)status; *name = "CUDA_ERROR_FAKE"; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal == 0 ? 0 : 101; }
static int text(char *to, int size, const char *from) { strncpy(to, from, (size_t)size); return 0; }
int cuDeviceGetName(char *name, int size, int device) { (void)device; return text(name, size, "Fake GPU"); }
int cuDeviceGetPCIBusId(char *id, int size, int device) { (void)device; return text(id, size, "0000:01:00.0"); }
int cuDeviceGetAttribute(int *value, int which, int device) { (void)device; *value = which == 75 ? 9 : 0; return 0; }
int cuDeviceCanAccessPeer(int *can, int from, int to) { (void)from; (void)to; *can = 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &now_us; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return device; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuCtxEnablePeerAccess(void *context, unsigned flags) { (void)context; return (int)flags; }
int cuMemAlloc_v2(uint64_t *address, size_t size) { *address = (uint64_t)(uintptr_t)malloc(size); return *address ? 0 : 2; }
int cuMemFree_v2(uint64_t address) { free((void *)(uintptr_t)address); return 0; }
int cuMemAllocHost_v2(void **address, size_t size) { *address = malloc(size); return *address ? 0 : 2; }
int cuMemFreeHost(void *address) { free(address); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t size, void *stream) {
  (void)stream;
  memcpy((void *)(uintptr_t)to, from, size);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t size, void *stream) {
  (void)stream;
  memcpy(to, (void *)(uintptr_t)from, size);
  return 0;
}
int cuMemcpyPeerAsync(uint64_t to, void *there, uint64_t from, void *here, size_t size, void *stream) {
  (void)there; (void)here; (void)stream;
  memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
  return 0;
}
int cuMemsetD8Async(uint64_t address, unsigned char byte, size_t size, void *stream) {
  (void)stream;
  memset((void *)(uintptr_t)address, byte, size);
  return 0;
}
int cuStreamCreate(void **stream, unsigned flags) { (void)flags; *stream = malloc(1); return 0; }
int cuStreamDestroy_v2(void *stream) { free(stream); return 0; }
int cuStreamSynchronize(void *stream) { (void)stream; return 0; }
int cuEventCreate(void **event, unsigned flags) { (void)flags; *event = calloc(1, sizeof(double)); return 0; }
int cuEventDestroy_v2(void *event) { free(event); return 0; }
int cuEventRecord(void *event, void *stream) { (void)stream; *(double *)event = now_us; return 0; }
int cuEventElapsedTime(float *ms, void *from, void *to) {
  *ms = (float)((*(double *)to - *(double *)from) / 1000);
  return 0;
}
int cuStreamBeginCapture_v2(void *stream, unsigned mode) {
  (void)stream; (void)mode;
  capturing = calloc(1, sizeof(graph_t));
  return 0;
}
int cuStreamEndCapture(void *stream, void **graph) { (void)stream; *graph = capturing; capturing = NULL; return 0; }
int cuGraphInstantiateWithFlags(void **ready, void *graph, unsigned long long flags) {
  *ready = malloc(sizeof(graph_t));
  memcpy(*ready, graph, sizeof(graph_t));
  return (int)flags;
}
int cuGraphDestroy(void *graph) { free(graph); return 0; }
int cuGraphLaunch(void *graph, void *stream) {
  (void)stream;
  graph_t *it = graph;
  for (size_t at = 0; at < it->count; at++) it->items[at].work(it->items[at].argument);
  return 0;
}
int cuGraphExecDestroy(void *graph) {
  graph_t *it = graph;
  for (size_t at = 0; at < it->count; at++) free(it->items[at].argument);
  free(it->items);
  free(it);
  return 0;
}
