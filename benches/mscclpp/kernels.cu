#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "kernels.hpp"

namespace harness {
namespace {

// A value for element `index` of rank `rank`'s input in the call with this seed.
__host__ __device__ inline uint32_t hashOf(uint64_t seed, uint32_t rank, uint64_t index) {
  uint64_t x = index + seed * 0x9E3779B97F4A7C15ull + (uint64_t(rank) + 1) * 0xD1B54A32D192ED03ull;
  x ^= x >> 33;
  x *= 0xFF51AFD7ED558CCDull;
  x ^= x >> 33;
  x *= 0xC4CEB9FE1A85EC53ull;
  x ^= x >> 33;
  return uint32_t(x);
}

// Integers below this sum exactly over `ranks` ranks, in any order, in the type.
__host__ __device__ inline uint32_t valueLimit(Type type, int ranks) {
  switch (type) {
    case Type::Float: return (1u << 24) / ranks;
    case Type::Half: return 2048 / ranks;
    case Type::Bf16: return 256 / ranks;
    default: return 1u << 26;
  }
}

__host__ __device__ inline uint32_t bitsOfInteger(Type type, uint32_t value) {
  switch (type) {
    case Type::Float: {
      float f = float(value);
#ifdef __CUDA_ARCH__
      return __float_as_uint(f);
#else
      uint32_t bits;
      memcpy(&bits, &f, 4);
      return bits;
#endif
    }
    case Type::Half: return __half_raw(__float2half_rn(float(value))).x;
    case Type::Bf16: return __nv_bfloat16_raw(__float2bfloat16_rn(float(value))).x;
    default: return value;
  }
}

// Reductions get small integers; copies any bits at all, since they must come through unchanged.
__host__ __device__ inline uint32_t inputBits(const Shape& s, uint32_t rank, uint64_t index) {
  uint32_t h = hashOf(s.seed, rank, index);
  if (s.collective == Collective::AllGather || s.collective == Collective::AllToAll)
    return s.type == Type::Half || s.type == Type::Bf16 ? h & 0xFFFF : h;
  return bitsOfInteger(s.type, h % valueLimit(s.type, s.ranks));
}

__host__ __device__ inline uint32_t outputBits(const Shape& s, uint64_t index) {
  if (s.collective == Collective::AllGather) return inputBits(s, uint32_t(index / s.count), index % s.count);
  if (s.collective == Collective::AllToAll)
    return inputBits(s, uint32_t(index / s.count), s.rank * s.count + index % s.count);
  uint64_t at = s.collective == Collective::ReduceScatter ? s.rank * s.count + index : index;
  uint32_t sum = 0, limit = valueLimit(s.type, s.ranks);
  for (int r = 0; r < s.ranks; r++) sum += hashOf(s.seed, r, at) % limit;
  return bitsOfInteger(s.type, sum);
}

__host__ __device__ inline uint64_t inputElements(const Shape& s) {
  return s.collective == Collective::ReduceScatter || s.collective == Collective::AllToAll ? s.count * s.ranks : s.count;
}
__host__ __device__ inline uint64_t outputElements(const Shape& s) {
  return s.collective == Collective::AllGather || s.collective == Collective::AllToAll ? s.count * s.ranks : s.count;
}

__device__ inline void report(Finding* finding, uint64_t index) {
  atomicMin(&finding->first, (unsigned long long)index);
  atomicAdd(&finding->wrong, 1ull);
}

template <typename Word>
__global__ void fillKernel(Shape s, Word* out, uint64_t n) {
  for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < n; i += uint64_t(gridDim.x) * blockDim.x)
    out[i] = Word(inputBits(s, s.rank, i));
}

// Loads bypass the L1 cache: another rank may have written.
template <typename Word, bool Input>
__global__ void checkKernel(Shape s, const Word* data, uint64_t n, Finding* finding) {
  for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < n; i += uint64_t(gridDim.x) * blockDim.x) {
    uint32_t want = Input ? inputBits(s, s.rank, i) : outputBits(s, i);
    if (__ldcg(data + i) != Word(want)) report(finding, i);
  }
}

__global__ void bytesKernel(const unsigned char* data, uint64_t n, unsigned char value, Finding* finding) {
  for (uint64_t i = blockIdx.x * uint64_t(blockDim.x) + threadIdx.x; i < n; i += uint64_t(gridDim.x) * blockDim.x)
    if (__ldcg(data + i) != value) report(finding, i);
}

__global__ void delayKernel(uint64_t ns) {
  uint64_t start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    __nanosleep(500);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
}

// Few, small blocks: they have to fit beside the blocks of other ranks that wait on the same GPU.
unsigned gridFor(uint64_t n) {
  uint64_t blocks = (n + 255) / 256;
  return unsigned(blocks < 264 ? (blocks ? blocks : 1) : 264);
}

template <bool Input>
void check(const Shape& s, const void* data, uint64_t n, Finding* finding, cudaStream_t stream) {
  if (typeSize(s.type) == 4)
    checkKernel<uint32_t, Input><<<gridFor(n), 256, 0, stream>>>(s, (const uint32_t*)data, n, finding);
  else
    checkKernel<uint16_t, Input><<<gridFor(n), 256, 0, stream>>>(s, (const uint16_t*)data, n, finding);
}

}  // namespace

void fillInput(const Shape& s, void* input, cudaStream_t stream) {
  uint64_t n = inputElements(s);
  if (typeSize(s.type) == 4)
    fillKernel<uint32_t><<<gridFor(n), 256, 0, stream>>>(s, (uint32_t*)input, n);
  else
    fillKernel<uint16_t><<<gridFor(n), 256, 0, stream>>>(s, (uint16_t*)input, n);
}

void checkOutput(const Shape& s, const void* output, Finding* finding, cudaStream_t stream) {
  check<false>(s, output, outputElements(s), finding, stream);
}

void checkInput(const Shape& s, const void* input, Finding* finding, cudaStream_t stream) {
  check<true>(s, input, inputElements(s), finding, stream);
}

void checkBytes(const void* bytes, uint64_t count, unsigned char value, Finding* finding, cudaStream_t stream) {
  bytesKernel<<<gridFor(count), 256, 0, stream>>>((const unsigned char*)bytes, count, value, finding);
}

void delay(uint64_t ns, cudaStream_t stream) { delayKernel<<<1, 1, 0, stream>>>(ns); }

uint32_t expectedBits(const Shape& s, uint64_t element) { return outputBits(s, element); }

double valueOf(Type type, uint32_t bits) {
  switch (type) {
    case Type::Float: {
      float f;
      memcpy(&f, &bits, 4);
      return f;
    }
    case Type::Half: {
      __half_raw raw;
      raw.x = uint16_t(bits);
      return __half2float(__half(raw));
    }
    case Type::Bf16: {
      __nv_bfloat16_raw raw;
      raw.x = uint16_t(bits);
      return __bfloat162float(__nv_bfloat16(raw));
    }
    default: return double(int32_t(bits));
  }
}

void loadKernels() {
  cudaFuncAttributes a;
  cudaFuncGetAttributes(&a, fillKernel<uint32_t>);
  cudaFuncGetAttributes(&a, fillKernel<uint16_t>);
  cudaFuncGetAttributes(&a, checkKernel<uint32_t, true>);
  cudaFuncGetAttributes(&a, checkKernel<uint32_t, false>);
  cudaFuncGetAttributes(&a, checkKernel<uint16_t, true>);
  cudaFuncGetAttributes(&a, checkKernel<uint16_t, false>);
  cudaFuncGetAttributes(&a, bytesKernel);
  cudaFuncGetAttributes(&a, delayKernel);
}

}  // namespace harness
