// What the launcher and the ranks share: jobs, options, and the memory both see.
//
// The launcher never touches CUDA. It forks one process per rank; everything a rank has to say goes
// through one anonymous shared mapping, so that it survives a rank that is killed or crashes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace harness {

enum class Collective { AllGather, ReduceScatter, AllReduce, AllToAll };
enum class Type { Float, Half, Bf16, Int };

inline size_t typeSize(Type type) { return type == Type::Float || type == Type::Int ? 4 : 2; }
inline bool reduces(Collective c) { return c == Collective::AllReduce || c == Collective::ReduceScatter; }

// One line of the job file.
struct Job {
  std::string id;
  std::string plan;      // a plan file, "nccl", or in dry runs "dry:ok|wrong|refuse|crash|hang|hang1"
  std::string loadPath;  // the file that is loaded: the plan, or a copy of it under a name of its own
  std::string group;     // neighbouring jobs with one group are timed in turns
  Collective collective = Collective::AllReduce;
  Type type = Type::Float;
  size_t bytes = 0;  // nccl-tests' size: AllGather total output, ReduceScatter total input, else the buffer
  bool inPlace = false;
  bool check = true;
  bool time = true;
  bool keepName = false;  // load the plan under the name it has, even if another plan has it too
  bool ll8 = false;       // packets of 8 bytes instead of 16
  int iterations = 0;     // timed calls per graph (even); 0: by size
  double limit = 0;       // seconds one step of this job may take; 0: the run's limit
  // Read from the plan:
  int blocks = 0;
  int threads = 0;
  size_t chunkUnit = 16;  // sizes of buffers must be multiples of this for the plan to take them
  bool isNccl() const { return plan == "nccl"; }
  bool isDry() const { return plan.rfind("dry:", 0) == 0; }
};

struct Options {
  int ranks = 0;
  int gpus = 1;
  std::string jobs;
  std::string out;
  std::string nccl;  // libnccl.so.2, for jobs with the plan "nccl"
  int rounds = 1;
  int launches = 31;
  int warmups = 2;
  int fresh = 2, chained = 6, skewed = 6;  // calls of each kind in a check
  double limit = 10;                       // seconds one step of a job may take
  double startLimit = 90;                  // seconds the ranks may take to start
  int restarts = 200;                      // restarts before the launcher gives up
  bool clockInGraph = true;                // events inside the graph; else around its launch
  bool allocMscclpp = false;               // buffers by mscclpp::GpuBuffer (plans with switch channels need it)
  bool dry = false;                        // no GPU: parse plans, pretend the rest
  bool verbose = false;
  uint64_t seed = 1;
};

enum class Status : int { Pending = 0, Ok, Wrong, Refused, Crash, Hang };
const char* statusName(Status status);

// The state of one job. Written by the ranks (rank 0 unless said otherwise), read by the launcher.
struct JobState {
  std::atomic<int> status;
  std::atomic<int> checked;       // the check has passed; a restart does not repeat it
  std::atomic<int> inputChanged;  // an out-of-place call wrote into its input (any rank)
  std::atomic<int> refusals;      // ranks that refused
  std::atomic<int> textLock;
  std::atomic<int> unreadable;  // the launcher could not read the plan; `text` says why
  double clockCalls;  // calls the measured interval held
  int clockInGraph;
  char text[600];    // exception text, or the first wrong element
  char detail[160];  // which pattern of calls, rank, element
};

// Outcome codes of a rank process.
enum ExitCode { kDone = 0, kInitFailed = 41, kRestart = 42, kCrashed = 43, kNoGpu = 44 };

struct Shared {
  // Barrier between ranks.
  std::atomic<int> arrived;
  std::atomic<unsigned> generation;
  // Watchdog: when the last sign of life came and how long the step may take (nanoseconds).
  std::atomic<long long> beat;
  std::atomic<long long> beatLimit;
  std::atomic<int> current;      // job being worked on, -1 outside jobs
  std::atomic<int> initialised;  // ranks that have started
  std::atomic<int> groupsDone;   // groups whose jobs are all finished
  std::atomic<int> refusedAt;    // 1: some rank refused the current job (see JobState::refusals)
  std::atomic<int> anyBad;       // scratch for votes
  std::atomic<int> idReady;
  unsigned char uniqueId[256];  // MSCCL++'s
  std::atomic<int> ncclIdReady;
  unsigned char ncclId[128];
  char machine[512];
};

// The mapping: Shared, then the arrays below.
class Memory {
 public:
  Memory(size_t jobs, int ranks, int rounds, int launches);
  Shared* shared() const { return shared_; }
  JobState& state(size_t job) const { return states_[job]; }
  float* launchTimes(int rank) const { return launchTimes_ + size_t(rank) * launches_; }
  // Slowest rank's microseconds per call, one per launch.
  float* samples(size_t job, int round) const { return samples_ + (job * rounds_ + round) * launches_; }
  void resetForStart();  // before the ranks are forked again

 private:
  Shared* shared_;
  JobState* states_;
  float* launchTimes_;
  float* samples_;
  size_t rounds_, launches_;
};

long long nowNs();

// jobs.cpp
bool parseOptions(int argc, char** argv, Options& options, std::string& error);
const char* usage();
// Reads the job file; throws std::runtime_error with the line number.
std::vector<Job> readJobs(const std::string& path, const Options& options);
Job parseJobLine(const std::string& line);
// Reads blocks, threads and chunks from a plan; gives it a name of its own in a copy unless it keeps its name.
void preparePlan(Job& job, int ranks, size_t index, const std::string& folder);
// Ranges [first, last) of jobs that belong together.
std::vector<std::pair<size_t, size_t>> groupsOf(const std::vector<Job>& jobs);
const char* collectiveName(Collective c);
const char* typeName(Type t);

// rank.cpp
int runRank(int rank, const Options& options, const std::vector<Job>& jobs, Memory& memory);

}  // namespace harness
