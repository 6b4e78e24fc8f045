#include "nccl.hpp"

#include <dlfcn.h>

#include <cstring>
#include <stdexcept>

namespace harness {
namespace {

// ncclDataType_t
int dataType(Type type) {
  switch (type) {
    case Type::Float: return 7;
    case Type::Half: return 6;
    case Type::Bf16: return 9;
    default: return 2;
  }
}
constexpr int kSum = 0;

template <typename F>
void load(void* library, F& function, const char* name, bool required = true) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function && required) throw std::runtime_error(std::string("NCCL has no ") + name);
}

}  // namespace

Nccl::Nccl(const std::string& path) {
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library_) throw std::runtime_error(std::string("NCCL cannot be loaded: ") + dlerror());
  load(library_, getVersion_, "ncclGetVersion");
  load(library_, getUniqueId_, "ncclGetUniqueId");
  load(library_, commInitRank_, "ncclCommInitRank");
  load(library_, commDestroy_, "ncclCommDestroy");
  load(library_, getErrorString_, "ncclGetErrorString");
  load(library_, allReduce_, "ncclAllReduce");
  load(library_, allGather_, "ncclAllGather");
  load(library_, reduceScatter_, "ncclReduceScatter");
  load(library_, allToAll_, "ncclAlltoAll", false);
  load(library_, send_, "ncclSend");
  load(library_, recv_, "ncclRecv");
  load(library_, groupStart_, "ncclGroupStart");
  load(library_, groupEnd_, "ncclGroupEnd");
  expect(getVersion_(&version_), "ncclGetVersion");
}

void Nccl::expect(int result, const char* what) {
  if (result) throw std::runtime_error(std::string(what) + ": " + getErrorString_(result));
}

void Nccl::uniqueId(unsigned char* id) {
  Id value;
  expect(getUniqueId_(&value), "ncclGetUniqueId");
  memcpy(id, &value, sizeof value);
}

void Nccl::connect(const unsigned char* id, int rank, int ranks) {
  Id value;
  memcpy(&value, id, sizeof value);
  ranks_ = ranks;
  expect(commInitRank_(&comm_, ranks, value, rank), "ncclCommInitRank");
}

void Nccl::disconnect() {
  if (comm_) commDestroy_(comm_);
  comm_ = nullptr;
}

void Nccl::call(Collective collective, Type type, size_t bytes, const void* send, void* recv, cudaStream_t stream) {
  size_t size = typeSize(type), elements = bytes / size, share = elements / ranks_;
  int t = dataType(type);
  switch (collective) {
    case Collective::AllReduce:
      return expect(allReduce_(send, recv, elements, t, kSum, comm_, stream), "ncclAllReduce");
    case Collective::AllGather:
      return expect(allGather_(send, recv, share, t, comm_, stream), "ncclAllGather");
    case Collective::ReduceScatter:
      return expect(reduceScatter_(send, recv, share, t, kSum, comm_, stream), "ncclReduceScatter");
    case Collective::AllToAll:
      if (allToAll_) return expect(allToAll_(send, recv, share, t, comm_, stream), "ncclAlltoAll");
      expect(groupStart_(), "ncclGroupStart");
      for (int peer = 0; peer < ranks_; peer++) {
        expect(send_((const char*)send + peer * share * size, share, t, peer, comm_, stream), "ncclSend");
        expect(recv_((char*)recv + peer * share * size, share, t, peer, comm_, stream), "ncclRecv");
      }
      return expect(groupEnd_(), "ncclGroupEnd");
  }
}

}  // namespace harness
