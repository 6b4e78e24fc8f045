// NCCL, loaded at run time: only the prototypes that are needed, so no nccl.h and no link to it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <string>

#include "shared.hpp"

namespace harness {

class Nccl {
 public:
  // Loads the library; throws std::runtime_error if it or a symbol is missing.
  explicit Nccl(const std::string& path);
  int version() const { return version_; }
  static constexpr size_t kIdBytes = 128;
  void uniqueId(unsigned char* id);
  void connect(const unsigned char* id, int rank, int ranks);
  void disconnect();
  bool connected() const { return comm_ != nullptr; }
  // One call as nccl-tests makes it; `bytes` is nccl-tests' size.
  void call(Collective collective, Type type, size_t bytes, const void* send, void* recv, cudaStream_t stream);

 private:
  struct Id {
    char bytes[kIdBytes];
  };
  void expect(int result, const char* what);
  void* library_ = nullptr;
  void* comm_ = nullptr;
  int ranks_ = 0;
  int version_ = 0;
  int (*getVersion_)(int*) = nullptr;
  int (*getUniqueId_)(Id*) = nullptr;
  int (*commInitRank_)(void**, int, Id, int) = nullptr;
  int (*commDestroy_)(void*) = nullptr;
  const char* (*getErrorString_)(int) = nullptr;
  int (*allReduce_)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*allGather_)(const void*, void*, size_t, int, void*, cudaStream_t) = nullptr;
  int (*reduceScatter_)(const void*, void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*allToAll_)(const void*, void*, size_t, int, void*, cudaStream_t) = nullptr;  // NCCL 2.28 and later
  int (*send_)(const void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*recv_)(void*, size_t, int, int, void*, cudaStream_t) = nullptr;
  int (*groupStart_)() = nullptr;
  int (*groupEnd_)() = nullptr;
};

}  // namespace harness
