// One rank: starts MSCCL++ (and NCCL when a job asks for it) and goes through the groups of jobs.
#include "rank.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mscclpp/gpu_utils.hpp>
#include <numeric>
#include <thread>

namespace harness {

std::string format(const char* text, ...) {
  char buffer[600];
  va_list arguments;
  va_start(arguments, text);
  vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return buffer;
}

namespace {

mscclpp::DataType dataType(Type type) {
  switch (type) {
    case Type::Float: return mscclpp::DataType::FLOAT32;
    case Type::Half: return mscclpp::DataType::FLOAT16;
    case Type::Bf16: return mscclpp::DataType::BFLOAT16;
    default: return mscclpp::DataType::INT32;
  }
}

}  // namespace

int RankProcess::run() {
  try {
    start();
  } catch (const NoGpu& e) {
    fprintf(stderr, "rank %d cannot start: %s\n", rank_, e.what());
    return kNoGpu;
  } catch (const std::exception& e) {
    fprintf(stderr, "rank %d cannot start: %s\n", rank_, e.what());
    return kInitFailed;
  }
  try {
    auto groups = groupsOf(jobs_);
    for (size_t g = shared_->groupsDone; g < groups.size(); g++) {
      runGroup(groups[g].first, groups[g].second);
      barrier();
      shared_->current = -1;
      if (rank_ == 0) shared_->groupsDone = int(g + 1);
    }
    barrier();
    return kDone;
  } catch (const Restart&) {
    return kRestart;
  } catch (const std::exception& e) {
    fprintf(stderr, "rank %d: %s\n", rank_, e.what());
    int job = shared_->current;
    if (job >= 0) say(job, e.what());
    return kCrashed;
  }
}

// ---- Between ranks ----

void RankProcess::barrier() {
  unsigned generation = shared_->generation.load();
  if (shared_->arrived.fetch_add(1) + 1 == options_.ranks) {
    shared_->arrived = 0;
    shared_->generation.fetch_add(1);
    return;
  }
  for (long spins = 0; shared_->generation.load() == generation; spins++)
    if (spins > 2000) std::this_thread::yield();
}

bool RankProcess::any(bool mine) {
  barrier();
  if (mine) shared_->anyBad = 1;
  barrier();
  bool result = shared_->anyBad;
  barrier();
  if (rank_ == 0) shared_->anyBad = 0;
  barrier();
  return result;
}

void RankProcess::beat(double seconds) {
  shared_->beatLimit = (long long)(seconds * 1e9);
  shared_->beat = nowNs();
}

void RankProcess::say(size_t job, const std::string& text, const std::string& detail) {
  JobState& state = memory_.state(job);
  if (state.textLock.exchange(1)) return;
  snprintf(state.text, sizeof state.text, "%s", text.c_str());
  snprintf(state.detail, sizeof state.detail, "%s", detail.c_str());
}

void RankProcess::log(const char* what, const Job& job) {
  if (options_.verbose && rank_ == 0) fprintf(stderr, "%s %s\n", what, job.id.c_str());
}

// ---- Start ----

void RankProcess::start() {
  beat(options_.startLimit);
  if (!options_.dry) {
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver || (error == cudaSuccess && !count))
      throw NoGpu(std::string("no CUDA GPU can be used: ") +
                  (error != cudaSuccess ? cudaGetErrorString(error) : "none found"));
    cuda(error, "cudaGetDeviceCount");
    if (count < options_.gpus) throw NoGpu(format("--gpus %d, but %d are there", options_.gpus, count));
    CUDA(cudaSetDevice(rank_ * options_.gpus / options_.ranks));
    CUDA(cudaFree(nullptr));
    CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    loadKernels();
    CUDA(cudaMalloc(&findings_, kFindings * sizeof(Finding)));
  }
  if (rank_ == 0) {
    mscclpp::UniqueId id = mscclpp::TcpBootstrap::createUniqueId();
    static_assert(sizeof(id) <= sizeof(shared_->uniqueId));
    memcpy(shared_->uniqueId, &id, sizeof id);
    shared_->idReady = 1;
  }
  while (!shared_->idReady) usleep(200);
  mscclpp::UniqueId id;
  memcpy(&id, shared_->uniqueId, sizeof id);
  auto bootstrap = std::make_shared<mscclpp::TcpBootstrap>(rank_, options_.ranks);
  bootstrap->initialize(id, int64_t(options_.startLimit));
  if (!options_.dry) {
    communicator_ = std::make_shared<mscclpp::Communicator>(bootstrap);
    executor_ = std::make_unique<mscclpp::Executor>(communicator_);
  }
  bootstrap_ = bootstrap;
  if (rank_ == 0 && !options_.dry) describeMachine();
  shared_->initialised.fetch_add(1);
  barrier();
  beat(options_.limit);
}

void RankProcess::describeMachine() {
  cudaDeviceProp p;
  int driver = 0, runtime = 0;
  CUDA(cudaGetDeviceProperties(&p, 0));
  CUDA(cudaDriverGetVersion(&driver));
  CUDA(cudaRuntimeGetVersion(&runtime));
  snprintf(shared_->machine, sizeof shared_->machine,
           "{\"gpu\":\"%s\",\"multiprocessors\":%d,\"memory\":%zu,\"cuda_driver\":%d,\"cuda_runtime\":%d}", p.name,
           p.multiProcessorCount, p.totalGlobalMem, driver, runtime);
}

Nccl& RankProcess::nccl() {
  if (!nccl_) nccl_ = std::make_unique<Nccl>(options_.nccl);
  if (!nccl_->connected()) {
    beat(std::max(options_.limit, options_.startLimit));
    if (rank_ == 0) nccl_->uniqueId(shared_->ncclId);
    barrier();
    nccl_->connect(shared_->ncclId, rank_, options_.ranks);
    barrier();
    beat(options_.limit);
  }
  return *nccl_;
}

// ---- Buffers and calls ----

// Buffers stay: NCCL remembers addresses that graphs have used, and small sizes come again and again.
RankProcess::Buffer RankProcess::buffer(int which, size_t size, size_t guard) {
  size_t total = size + guard;
  auto& memory = pool_[{which, total}];
  if (!memory) {
    if (options_.allocMscclpp) {
      memory = mscclpp::GpuBuffer<char>(total).memory();
    } else {
      char* base = nullptr;
      CUDA(cudaMalloc(&base, total));
      memory = std::shared_ptr<char>(base, [](char* p) { cudaFree(p); });
    }
    pooled_ += total;
  }
  return {memory.get(), size, total};
}

void RankProcess::emptyPool() {
  barrier();
  if (nccl_) nccl_->disconnect();
  barrier();
  pool_.clear();
  pooled_ = 0;
}

Shape RankProcess::shapeOf(const Job& job, uint64_t seed) const {
  size_t elements = job.bytes / typeSize(job.type);
  size_t count = job.collective == Collective::AllReduce ? elements : elements / options_.ranks;
  return {job.collective, job.type, options_.ranks, rank_, count, seed};
}

RankProcess::Call RankProcess::callOf(const Job& job, const Group& group) const {
  size_t share = job.bytes / options_.ranks;
  switch (job.collective) {
    case Collective::AllGather: {
      char* send = job.inPlace ? group.out.base + rank_ * share : group.in.base;
      return {send, group.out.base, share, job.bytes};
    }
    case Collective::ReduceScatter: {
      char* recv = job.inPlace ? group.in.base + rank_ * share : group.out.base;
      return {group.in.base, recv, job.bytes, share};
    }
    default: {
      char* send = job.inPlace ? group.out.base : group.in.base;
      return {send, group.out.base, job.bytes, job.bytes};
    }
  }
}

void RankProcess::execute(size_t index, Group& group, bool setup) {
  const Job& job = jobs_[index];
  Call call = callOf(job, group);
  (void)cudaGetLastError();
  if (job.isNccl()) {
    nccl().call(job.collective, job.type, job.bytes, call.send, call.recv, stream_);
  } else {
    executor_->execute(rank_, call.send, call.recv, call.sendBytes, call.recvBytes, dataType(job.type),
                       *group.plans.at(index), stream_,
                       job.ll8 ? mscclpp::PacketType::LL8 : mscclpp::PacketType::LL16);
  }
  if (setup) (void)cudaGetLastError();
  else CUDA(cudaGetLastError());  // the executor does not look whether its kernel was launched
}

// ---- One group ----

void RankProcess::runGroup(size_t first, size_t last) {
  Group group{first, last, {}, {}, {}};
  bool pending = false;
  for (size_t j = first; j < last; j++) pending |= status(j) == Status::Pending;
  if (!pending) return;
  if (options_.dry) return dryGroup(first, last);
  makeBuffers(group);
  std::vector<size_t> timed;
  for (size_t j = first; j < last; j++) {
    if (status(j) != Status::Pending) continue;
    barrier();
    shared_->current = int(j);
    shared_->refusedAt = 0;
    beat(jobs_[j].limit);
    if (!firstCall(j, group)) continue;
    if (jobs_[j].check && !memory_.state(j).checked) {
      log("check", jobs_[j]);
      if (!check(j, group)) {
        setStatus(j, Status::Wrong);
        barrier();
        throw Restart{};
      }
      if (rank_ == 0) memory_.state(j).checked = 1;
    }
    if (jobs_[j].time) timed.push_back(j);
    else setStatus(j, Status::Ok);
    barrier();
  }
  if (!timed.empty()) timeJobs(timed, group);
  // Contexts hold scratch and handles of other ranks' memory: give them back before the next group.
  barrier();
  beat(options_.limit);
  group.plans.clear();
  executor_->reset();
  barrier();
}

void RankProcess::makeBuffers(Group& group) {
  const Job& job = jobs_[group.first];
  size_t share = job.bytes / options_.ranks;
  size_t in = job.collective == Collective::AllGather ? share : job.bytes;
  size_t out = job.collective == Collective::ReduceScatter ? share : job.bytes;
  // Scratch is sized by the allocation, guard included: keep it a multiple of what every plan's chunks
  // need, or packets in the second half of the scratch would not be aligned.
  size_t unit = 16;
  for (size_t j = group.first; j < group.last; j++) unit = std::lcm(unit, jobs_[j].chunkUnit);
  size_t guard = (kGuardBytes + unit - 1) / unit * unit;
  if (guard > std::max<size_t>(64 << 10, job.bytes / 4)) guard = (kGuardBytes + job.bytes - 1) / job.bytes * job.bytes;
  if (pooled_ + in + out + 2 * guard > kPoolBytes) emptyPool();
  group.in = buffer(0, in, guard);
  group.out = buffer(1, out, guard);
  for (const Buffer& b : {group.in, group.out})
    CUDA(cudaMemsetAsync(b.base + b.size, kGuard, b.total - b.size, stream_));
  CUDA(cudaStreamSynchronize(stream_));
}

bool RankProcess::firstCall(size_t index, Group& group) {
  const Job& job = jobs_[index];
  std::string reason;
  size_t share = job.collective == Collective::AllReduce ? 1 : options_.ranks;
  if (job.bytes % (typeSize(job.type) * share))
    reason = format("%zu bytes do not divide into %zu shares of whole elements", job.bytes, share);
  else if (job.isNccl() && job.collective == Collective::AllToAll && job.inPlace)
    reason = "NCCL has no AllToAll in place";
  else if (memory_.state(index).unreadable)
    reason = memory_.state(index).text;
  barrier();
  if (reason.empty()) {
    fillInput(shapeOf(job, 0), callOf(job, group).send, stream_);
    CUDA(cudaStreamSynchronize(stream_));
    if (job.isNccl()) nccl();
    try {
      if (!job.isNccl()) group.plans[index] = std::make_unique<mscclpp::ExecutionPlan>(job.loadPath, rank_);
      execute(index, group, true);
    } catch (const mscclpp::CudaError&) {
      throw;
    } catch (const mscclpp::CuError&) {
      throw;
    } catch (const CudaFailure&) {
      throw;
    } catch (const std::exception& e) {
      reason = e.what();
    }
  }
  if (!reason.empty()) {
    say(index, reason);
    memory_.state(index).refusals.fetch_add(1);
    shared_->refusedAt = 1;
  }
  // If only some ranks refuse, the others wait in vain here or in their kernels; the launcher sees to it.
  if (any(!reason.empty())) {
    setStatus(index, Status::Refused);
    group.plans.erase(index);
    barrier();
    if (memory_.state(index).refusals != options_.ranks) throw Restart{};
    return false;
  }
  CUDA(cudaStreamSynchronize(stream_));
  barrier();
  beat(job.limit);
  return true;
}

int runRank(int rank, const Options& options, const std::vector<Job>& jobs, Memory& memory) {
  // Left behind on purpose: tearing down CUDA, MSCCL++ and NCCL is slow and may hang.
  auto* process = new RankProcess(rank, options, jobs, memory);
  return process->run();
}

}  // namespace harness
