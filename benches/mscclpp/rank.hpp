// One rank's process. rank.cpp starts it and goes through the groups of jobs; check.cpp, time.cpp and dry.cpp
// hold what is done with a job.
#pragma once

#include <map>
#include <memory>
#include <mscclpp/core.hpp>
#include <mscclpp/executor.hpp>
#include <stdexcept>
#include <string>

#include "kernels.hpp"
#include "nccl.hpp"
#include "shared.hpp"

namespace harness {

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

inline void cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw CudaFailure(std::string(what) + ": " + cudaGetErrorString(error));
}
#define CUDA(call) ::harness::cuda((call), #call)

// printf into a string.
std::string format(const char* text, ...) __attribute__((format(printf, 1, 2)));

class RankProcess {
 public:
  RankProcess(int rank, const Options& options, const std::vector<Job>& jobs, Memory& memory)
      : rank_(rank),
        options_(options),
        jobs_(jobs),
        memory_(memory),
        shared_(memory.shared()),
        clockInGraph_(options.clockInGraph) {}

  int run();  // returns an ExitCode

 private:
  // Between ranks.
  void barrier();
  bool any(bool mine);        // true on every rank if it is true on any
  void beat(double seconds);  // a sign of life; the next one must come within this time
  // The first rank that has something to say about a job says it.
  void say(size_t job, const std::string& text, const std::string& detail = "");
  void log(const char* what, const Job& job);

  void start();
  void describeMachine();
  Nccl& nccl();

  // One allocation: `size` bytes for the call, then the guard up to `total`.
  struct Buffer {
    char* base = nullptr;
    size_t size = 0, total = 0;
  };
  // Jobs that share buffers and an executor.
  struct Group {
    size_t first, last;
    Buffer in, out;
    std::map<size_t, std::unique_ptr<mscclpp::ExecutionPlan>> plans;
  };
  // What one call is given.
  struct Call {
    char *send, *recv;
    size_t sendBytes, recvBytes;
  };

  Buffer buffer(int which, size_t size, size_t guard);
  void emptyPool();
  void makeBuffers(Group& group);
  Shape shapeOf(const Job& job, uint64_t seed) const;
  Call callOf(const Job& job, const Group& group) const;
  // `setup`: the first call, in which MSCCL++ tries things that may leave an error behind.
  void execute(size_t index, Group& group, bool setup = false);

  Status status(size_t job) { return Status(memory_.state(job).status.load()); }
  void setStatus(size_t job, Status value) {
    if (rank_ == 0) memory_.state(job).status = int(value);
  }
  void runGroup(size_t first, size_t last);
  // Loads the plan and calls it once, so that everything is set up. False: refused by all ranks.
  bool firstCall(size_t index, Group& group);

  // check.cpp
  void prepare(const Job& job, const Call& call, const Shape& shape);
  bool check(size_t index, Group& group);
  void clearFindings();
  void checkGuards(const Group& group);
  bool bad(size_t index, const Job& job, const Call& call, const char* pattern, int calls, uint64_t firstSeed);

  // time.cpp
  struct Timed {
    cudaGraphExec_t graph = nullptr;
    cudaEvent_t before = nullptr, after = nullptr;            // recorded inside the graph
    cudaEvent_t outerBefore = nullptr, outerAfter = nullptr;  // around its launch
  };
  Timed capture(size_t index, Group& group);
  float launch(const Timed& t, const Job& job);
  void timeJobs(const std::vector<size_t>& timed, Group& group);
  void timeRound(size_t j, int round, const Timed& graph, Group& group);
  uint64_t replaySeed(size_t j) const { return options_.seed * 31337 + j; }
  bool replayBad(size_t j, Group& group);

  // dry.cpp
  void dryGroup(size_t first, size_t last);

  static constexpr int kLeadIn = 2;  // calls in a graph before the clock starts: they bring the ranks together
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
  Finding* findings_ = nullptr;  // kFindings on the GPU: one per call, the last three for input and guards
  std::shared_ptr<mscclpp::TcpBootstrap> bootstrap_;
  std::shared_ptr<mscclpp::Communicator> communicator_;
  std::unique_ptr<mscclpp::Executor> executor_;
  std::unique_ptr<Nccl> nccl_;
  std::map<std::pair<int, size_t>, std::shared_ptr<char>> pool_;  // by use (input, output) and size
  size_t pooled_ = 0;
};

}  // namespace harness
