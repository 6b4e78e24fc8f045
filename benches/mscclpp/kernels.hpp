// Small kernels: fill inputs, poison outputs, check every element, delay a rank.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "shared.hpp"

namespace harness {

// Shape of one call as rank `rank` of `ranks` sees it. `count` is the elements of one rank's share:
// of its input for AllGather, of its output for ReduceScatter, of one of `ranks` slices for AllToAll,
// and of the whole buffer for AllReduce.
struct Shape {
  Collective collective;
  Type type;
  int ranks;
  int rank;
  uint64_t count;
  uint64_t seed;  // changes with every call
};

// What one check found. `first` is the lowest wrong element (all ones: none).
struct Finding {
  unsigned long long first;
  unsigned long long wrong;
};

constexpr unsigned char kPoison = 0xA5;
constexpr unsigned char kGuard = 0x5C;

// Writes rank `shape.rank`'s input of this call: `count` elements, times `ranks` where the input is whole.
void fillInput(const Shape& shape, void* input, cudaStream_t stream);
// Compares the output with what the collective must give.
void checkOutput(const Shape& shape, const void* output, Finding* finding, cudaStream_t stream);
// Compares an input with what fillInput wrote.
void checkInput(const Shape& shape, const void* input, Finding* finding, cudaStream_t stream);
// Compares bytes with a constant.
void checkBytes(const void* bytes, uint64_t count, unsigned char value, Finding* finding, cudaStream_t stream);
// Spins for about this long on the stream.
void delay(uint64_t nanoseconds, cudaStream_t stream);

// The same functions on the host, to name a wrong element. `input` with `from` ranks' data:
uint32_t expectedBits(const Shape& shape, uint64_t element);
double valueOf(Type type, uint32_t bits);
// Loads the kernels before anything spins on the GPU.
void loadKernels();

}  // namespace harness
