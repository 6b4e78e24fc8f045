// One rank: starts MSCCL++ (and NCCL when a job asks for it), checks and times the jobs.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mscclpp/core.hpp>
#include <mscclpp/executor.hpp>
#include <mscclpp/gpu_utils.hpp>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "kernels.hpp"
#include "nccl.hpp"
#include "shared.hpp"

namespace harness {
namespace {

// A CUDA call failed: the process cannot go on.
struct CudaFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// There is no GPU, or no driver for it: trying again does not help.
struct NoGpu : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The ranks must be started again (a wrong result may have left anything behind).
struct Restart {};

void cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw CudaFailure(std::string(what) + ": " + cudaGetErrorString(error));
}
#define CUDA(call) cuda((call), #call)

std::string format(const char* text, ...) {
  char buffer[600];
  va_list arguments;
  va_start(arguments, text);
  vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return buffer;
}

mscclpp::DataType dataType(Type type) {
  switch (type) {
    case Type::Float: return mscclpp::DataType::FLOAT32;
    case Type::Half: return mscclpp::DataType::FLOAT16;
    case Type::Bf16: return mscclpp::DataType::BFLOAT16;
    default: return mscclpp::DataType::INT32;
  }
}

class RankProcess {
 public:
  RankProcess(int rank, const Options& options, const std::vector<Job>& jobs, Memory& memory)
      : rank_(rank), options_(options), jobs_(jobs), memory_(memory), shared_(memory.shared()),
        clockInGraph_(options.clockInGraph) {}

  int run() {
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

 private:
  // ---- Between ranks ----

  void barrier() {
    unsigned generation = shared_->generation.load();
    if (shared_->arrived.fetch_add(1) + 1 == options_.ranks) {
      shared_->arrived = 0;
      shared_->generation.fetch_add(1);
      return;
    }
    for (long spins = 0; shared_->generation.load() == generation; spins++)
      if (spins > 2000) std::this_thread::yield();
  }

  // True on every rank if it is true on any.
  bool any(bool mine) {
    barrier();
    if (mine) shared_->anyBad = 1;
    barrier();
    bool result = shared_->anyBad;
    barrier();
    if (rank_ == 0) shared_->anyBad = 0;
    barrier();
    return result;
  }

  // A sign of life; the next one must come within this many seconds.
  void beat(double seconds) {
    shared_->beatLimit = (long long)(seconds * 1e9);
    shared_->beat = nowNs();
  }

  // The first rank that has something to say about a job says it.
  void say(size_t job, const std::string& text, const std::string& detail = "") {
    JobState& state = memory_.state(job);
    if (state.textLock.exchange(1)) return;
    snprintf(state.text, sizeof state.text, "%s", text.c_str());
    snprintf(state.detail, sizeof state.detail, "%s", detail.c_str());
  }

  void log(const char* what, const Job& job) {
    if (options_.verbose && rank_ == 0) fprintf(stderr, "%s %s\n", what, job.id.c_str());
  }

  // ---- Start ----

  void start() {
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

  void describeMachine() {
    cudaDeviceProp p;
    int driver = 0, runtime = 0;
    CUDA(cudaGetDeviceProperties(&p, 0));
    CUDA(cudaDriverGetVersion(&driver));
    CUDA(cudaRuntimeGetVersion(&runtime));
    snprintf(shared_->machine, sizeof shared_->machine,
             "{\"gpu\":\"%s\",\"multiprocessors\":%d,\"memory\":%zu,\"cuda_driver\":%d,\"cuda_runtime\":%d}", p.name,
             p.multiProcessorCount, p.totalGlobalMem, driver, runtime);
  }

  Nccl& nccl() {
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

  // ---- Buffers ----

  // One allocation: `size` bytes for the call, then the guard up to `total`.
  struct Buffer {
    char* base = nullptr;
    size_t size = 0, total = 0;
  };

  // Buffers stay: NCCL remembers addresses that graphs have used, and small sizes come again and again.
  Buffer buffer(int which, size_t size, size_t guard) {
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

  void emptyPool() {
    barrier();
    if (nccl_) nccl_->disconnect();
    barrier();
    pool_.clear();
    pooled_ = 0;
  }

  struct Group {
    size_t first, last;
    Buffer in, out;
    std::map<size_t, std::unique_ptr<mscclpp::ExecutionPlan>> plans;
  };

  Shape shapeOf(const Job& job, uint64_t seed) const {
    size_t elements = job.bytes / typeSize(job.type);
    size_t count = job.collective == Collective::AllReduce ? elements : elements / options_.ranks;
    return {job.collective, job.type, options_.ranks, rank_, count, seed};
  }

  struct Call {
    char *send, *recv;
    size_t sendBytes, recvBytes;
  };

  Call callOf(const Job& job, const Group& group) const {
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

  // `setup`: the first call, in which MSCCL++ tries things that may leave an error behind.
  void execute(size_t index, Group& group, bool setup = false) {
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

  Status status(size_t job) { return Status(memory_.state(job).status.load()); }
  void setStatus(size_t job, Status value) {
    if (rank_ == 0) memory_.state(job).status = int(value);
  }

  void runGroup(size_t first, size_t last) {
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

  void makeBuffers(Group& group) {
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

  // Loads the plan and calls it once, so that everything is set up. False: refused by all ranks.
  bool firstCall(size_t index, Group& group) {
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

  // ---- Checks ----

  // New data, poisoned output.
  void prepare(const Job& job, const Call& call, const Shape& shape) {
    if (job.collective == Collective::AllGather || !job.inPlace)  // else the output is the input
      CUDA(cudaMemsetAsync(call.recv, kPoison, call.recvBytes, stream_));
    fillInput(shape, call.send, stream_);
    CUDA(cudaGetLastError());
  }

  bool check(size_t index, Group& group) {
    struct Pattern {
      const char* name;
      int calls;
      bool alone, skewed;
    };
    const Pattern patterns[] = {{"fresh", options_.fresh, true, false},
                                {"chained", options_.chained, false, false},
                                {"skewed", options_.skewed, false, true}};
    uint64_t random = options_.seed * 7919 + index * 104729 + rank_ * 31 + 1;
    auto next = [&]() {
      random ^= random << 13;
      random ^= random >> 7;
      random ^= random << 17;
      return random;
    };
    const Job& job = jobs_[index];
    Call call = callOf(job, group);
    uint64_t seed = options_.seed * 1000003 + index * 1009;
    for (const Pattern& pattern : patterns) {
      if (!pattern.calls) continue;
      int calls = std::min(pattern.calls, kFindings - 4);
      beat(job.limit);
      clearFindings();
      barrier();
      uint64_t firstSeed = seed + 1;
      for (int c = 0; c < calls; c++) {
        Shape shape = shapeOf(job, ++seed);
        if (pattern.skewed && next() % 2) delay(next() % 300000, stream_);
        prepare(job, call, shape);
        if (pattern.alone) {
          CUDA(cudaStreamSynchronize(stream_));
          barrier();
        }
        if (pattern.skewed && next() % 2) delay(next() % 300000, stream_);
        execute(index, group);
        checkOutput(shape, call.recv, findings_ + c, stream_);
        if (pattern.alone) {
          if (!job.inPlace) checkInput(shape, call.send, findings_ + kFindings - 1, stream_);
          CUDA(cudaStreamSynchronize(stream_));
          barrier();
        }
      }
      checkGuards(group);
      if (any(bad(index, job, call, pattern.name, calls, firstSeed))) return false;
    }
    return true;
  }

  void clearFindings() {
    std::vector<Finding> clean(kFindings, Finding{~0ull, 0});
    CUDA(cudaMemcpyAsync(findings_, clean.data(), kFindings * sizeof(Finding), cudaMemcpyHostToDevice, stream_));
    CUDA(cudaStreamSynchronize(stream_));
  }

  void checkGuards(const Group& group) {
    checkBytes(group.in.base + group.in.size, group.in.total - group.in.size, kGuard, findings_ + kFindings - 2, stream_);
    checkBytes(group.out.base + group.out.size, group.out.total - group.out.size, kGuard, findings_ + kFindings - 3, stream_);
  }

  // Reads what the checks found; says the first thing that is wrong.
  bool bad(size_t index, const Job& job, const Call& call, const char* pattern, int calls, uint64_t firstSeed) {
    std::vector<Finding> found(kFindings);
    CUDA(cudaMemcpyAsync(found.data(), findings_, kFindings * sizeof(Finding), cudaMemcpyDeviceToHost, stream_));
    CUDA(cudaStreamSynchronize(stream_));
    CUDA(cudaGetLastError());
    if (found[kFindings - 1].wrong) memory_.state(index).inputChanged = 1;
    for (int c = 0; c < calls; c++) {
      if (!found[c].wrong) continue;
      uint64_t element = found[c].first;
      uint32_t want = expectedBits(shapeOf(job, firstSeed + c), element);
      std::string got = "";
      if (c == calls - 1) {  // the output is still there
        uint32_t bits = 0;
        CUDA(cudaMemcpy(&bits, call.recv + element * typeSize(job.type), typeSize(job.type), cudaMemcpyDeviceToHost));
        got = format(", found %#x (%g)", bits, valueOf(job.type, bits));
      }
      say(index,
          format("%s call %d, rank %d: element %llu should be %#x (%g)%s; %llu elements are wrong", pattern, c, rank_,
                 (unsigned long long)element, want, valueOf(job.type, want), got.c_str(), found[c].wrong),
          format("{\"pattern\":\"%s\",\"call\":%d,\"rank\":%d,\"element\":%llu,\"wrong\":%llu}", pattern, c, rank_,
                 (unsigned long long)element, found[c].wrong));
      return true;
    }
    for (int g = 2; g <= 3; g++) {
      if (!found[kFindings - g].wrong) continue;
      say(index,
          format("%s calls, rank %d: byte %llu behind the %s was overwritten", pattern, rank_, found[kFindings - g].first,
                 g == 2 ? "input" : "output"),
          format("{\"pattern\":\"%s\",\"rank\":%d,\"guard\":\"%s\",\"byte\":%llu}", pattern, rank_,
                 g == 2 ? "input" : "output", found[kFindings - g].first));
      return true;
    }
    return false;
  }

  // ---- Times ----

  // Two calls to bring the ranks together, then the calls that are timed.
  static constexpr int kLeadIn = 2;

  struct Timed {
    cudaGraphExec_t graph = nullptr;
    cudaEvent_t before = nullptr, after = nullptr;            // recorded inside the graph
    cudaEvent_t outerBefore = nullptr, outerAfter = nullptr;  // around its launch
  };

  Timed capture(size_t index, Group& group) {
    Timed t;
    for (cudaEvent_t* event : {&t.before, &t.after, &t.outerBefore, &t.outerAfter}) CUDA(cudaEventCreate(event));
    cudaGraph_t graph;
    // Relaxed: MSCCL++'s proxy thread may call CUDA meanwhile.
    CUDA(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < kLeadIn; i++) execute(index, group);
    if (options_.clockInGraph) CUDA(cudaEventRecordWithFlags(t.before, stream_, cudaEventRecordExternal));
    for (int i = 0; i < jobs_[index].iterations; i++) execute(index, group);
    if (options_.clockInGraph) CUDA(cudaEventRecordWithFlags(t.after, stream_, cudaEventRecordExternal));
    CUDA(cudaStreamEndCapture(stream_, &graph));
    CUDA(cudaGraphInstantiate(&t.graph, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    CUDA(cudaGraphUpload(t.graph, stream_));
    CUDA(cudaStreamSynchronize(stream_));
    return t;
  }

  // Microseconds per call of one launch.
  float launch(const Timed& t, const Job& job) {
    beat(job.limit);
    CUDA(cudaEventRecord(t.outerBefore, stream_));
    CUDA(cudaGraphLaunch(t.graph, stream_));
    CUDA(cudaEventRecord(t.outerAfter, stream_));
    CUDA(cudaStreamSynchronize(stream_));
    float ms = 0;
    if (clockInGraph_) {
      if (cudaEventElapsedTime(&ms, t.before, t.after) == cudaSuccess && ms > 0) return ms * 1000 / job.iterations;
      // Drivers that do not time events of graphs: every rank finds that out alike.
      (void)cudaGetLastError();
      clockInGraph_ = false;
    }
    CUDA(cudaEventElapsedTime(&ms, t.outerBefore, t.outerAfter));
    return ms * 1000 / (job.iterations + kLeadIn);
  }

  void timeJobs(const std::vector<size_t>& timed, Group& group) {
    std::map<size_t, Timed> graphs;
    for (size_t j : timed) {
      barrier();
      shared_->current = int(j);
      beat(jobs_[j].limit);
      log("capture", jobs_[j]);
      graphs[j] = capture(j, group);
      barrier();
      for (int w = 0; w < options_.warmups; w++) {
        launch(graphs[j], jobs_[j]);
        barrier();
      }
    }
    for (int round = 0; round < options_.rounds; round++) {
      for (size_t j : timed) {
        barrier();
        shared_->current = int(j);
        beat(jobs_[j].limit);
        bool verify = round == options_.rounds - 1 && jobs_[j].check && !jobs_[j].inPlace;
        timeRound(j, round, graphs[j], group);
        if (verify && any(replayBad(j, group))) {
          setStatus(j, Status::Wrong);
          barrier();
          throw Restart{};
        }
      }
    }
    for (size_t j : timed) {
      Timed& t = graphs[j];
      CUDA(cudaGraphExecDestroy(t.graph));
      for (cudaEvent_t event : {t.before, t.after, t.outerBefore, t.outerAfter}) CUDA(cudaEventDestroy(event));
      if (rank_ == 0) {
        memory_.state(j).clockCalls = jobs_[j].iterations + (clockInGraph_ ? 0 : kLeadIn);
        memory_.state(j).clockInGraph = clockInGraph_;
      }
      setStatus(j, Status::Ok);
    }
    barrier();
  }

  uint64_t replaySeed(size_t j) const { return options_.seed * 31337 + j; }

  void timeRound(size_t j, int round, const Timed& graph, Group& group) {
    const Job& job = jobs_[j];
    Call call = callOf(job, group);
    prepare(job, call, shapeOf(job, replaySeed(j)));
    CUDA(cudaStreamSynchronize(stream_));
    barrier();
    launch(graph, job);  // not counted: the caches hold another job's data
    float* mine = memory_.launchTimes(rank_);
    for (int l = 0; l < options_.launches; l++) {
      barrier();
      mine[l] = launch(graph, job);
    }
    barrier();
    if (rank_ == 0) {
      float* samples = memory_.samples(j, round);
      for (int l = 0; l < options_.launches; l++) {
        samples[l] = 0;
        for (int r = 0; r < options_.ranks; r++) samples[l] = std::max(samples[l], memory_.launchTimes(r)[l]);
      }
    }
    barrier();
  }

  // Out of place, the output must still be right after the replays.
  bool replayBad(size_t j, Group& group) {
    const Job& job = jobs_[j];
    Call call = callOf(job, group);
    clearFindings();
    checkOutput(shapeOf(job, replaySeed(j)), call.recv, findings_, stream_);
    checkGuards(group);
    return bad(j, job, call, "replayed", 1, replaySeed(j));
  }

  // ---- Dry runs ----

  void dryGroup(size_t first, size_t last) {
    for (size_t j = first; j < last; j++) {
      const Job& job = jobs_[j];
      if (status(j) != Status::Pending) continue;
      barrier();
      shared_->current = int(j);
      shared_->refusedAt = 0;
      beat(job.limit);
      barrier();
      std::string reason;
      if (memory_.state(j).unreadable) reason = memory_.state(j).text;
      else if (job.plan == "dry:hang") for (;;) pause();
      else if (job.plan == "dry:hang1" && rank_ == 1) for (;;) pause();
      else if (job.plan == "dry:crash" && rank_ == 1) raise(SIGSEGV);
      else if (job.plan == "dry:throw" && rank_ == 1) throw CudaFailure("pretended CUDA failure");
      else if (job.plan == "dry:refuse") reason = "refused by all ranks";
      else if (job.plan == "dry:refuse1" && rank_ == 1) reason = "refused by rank 1";
      else if (!job.isDry() && !job.isNccl()) {
        try {
          mscclpp::ExecutionPlan plan(job.loadPath, rank_);
        } catch (const std::exception& e) {
          reason = e.what();
        }
      }
      if (!reason.empty()) {
        say(j, reason);
        memory_.state(j).refusals.fetch_add(1);
        shared_->refusedAt = 1;
        if (job.plan == "dry:refuse1") for (;;) pause();
      } else if (job.plan == "dry:refuse1") {
        for (;;) pause();
      }
      if (any(!reason.empty())) {
        setStatus(j, Status::Refused);
        barrier();
        continue;
      }
      if (any(job.plan == "dry:wrong")) {
        if (rank_ == 0) say(j, "pretended", "{\"pattern\":\"fresh\",\"call\":0,\"rank\":0,\"element\":7,\"wrong\":1}");
        setStatus(j, Status::Wrong);
        barrier();
        throw Restart{};
      }
      if (rank_ == 0 && job.time) {
        for (int round = 0; round < options_.rounds; round++)
          for (int l = 0; l < options_.launches; l++) memory_.samples(j, round)[l] = 10 + round + l * 0.01f;
        memory_.state(j).clockCalls = job.iterations;
        memory_.state(j).clockInGraph = 1;
      }
      setStatus(j, Status::Ok);
      barrier();
    }
  }

  static constexpr int kFindings = 64;
  static constexpr size_t kGuardBytes = 4096;
  static constexpr size_t kPoolBytes = size_t(2) << 30;

  int rank_;
  const Options& options_;
  const std::vector<Job>& jobs_;
  Memory& memory_;
  Shared* shared_;
  bool clockInGraph_;
  cudaStream_t stream_ = nullptr;
  Finding* findings_ = nullptr;
  std::shared_ptr<mscclpp::TcpBootstrap> bootstrap_;
  std::shared_ptr<mscclpp::Communicator> communicator_;
  std::unique_ptr<mscclpp::Executor> executor_;
  std::unique_ptr<Nccl> nccl_;
  std::map<std::pair<int, size_t>, std::shared_ptr<char>> pool_;
  size_t pooled_ = 0;
};

}  // namespace

int runRank(int rank, const Options& options, const std::vector<Job>& jobs, Memory& memory) {
  // Left behind on purpose: tearing down CUDA, MSCCL++ and NCCL is slow and may hang.
  auto* process = new RankProcess(rank, options, jobs, memory);
  return process->run();
}

}  // namespace harness
