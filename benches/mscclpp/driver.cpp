// The launcher: forks the ranks, watches over them, writes the results. It never touches CUDA.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "shared.hpp"

using namespace harness;

namespace {

double quantile(std::vector<float> values, double q) {
  std::sort(values.begin(), values.end());
  double at = q * (values.size() - 1);
  size_t low = size_t(at);
  if (low + 1 >= values.size()) return values.back();
  return values[low] + (at - low) * (values[low + 1] - values[low]);
}

double round3(double v) { return std::round(v * 1000) / 1000; }

class Launcher {
 public:
  Launcher(const Options& options, std::vector<Job> jobs)
      : options_(options), jobs_(std::move(jobs)), memory_(jobs_.size(), options.ranks, options.rounds, options.launches) {
    char folder[] = "/tmp/mscclpp-harness-XXXXXX";
    if (!mkdtemp(folder)) throw std::runtime_error("cannot make a temporary folder");
    folder_ = folder;
    out_ = fopen(options.out.c_str(), "a");
    if (!out_) throw std::runtime_error("cannot write " + options.out);
    for (size_t j = 0; j < jobs_.size(); j++) {
      try {
        preparePlan(jobs_[j], options.ranks, j, folder_);
      } catch (const std::exception& e) {
        // The ranks will refuse it.
        JobState& state = memory_.state(j);
        state.textLock = 1;
        state.unreadable = 1;
        snprintf(state.text, sizeof state.text, "%s", e.what());
      }
    }
    groups_ = groupsOf(jobs_);
  }

  ~Launcher() {
    killRanks();
    if (out_) fclose(out_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // 0: every job has a result. 3: the ranks cannot be started (again); the jobs left have no result.
  int run() {
    int restarts = 0, failedStarts = 0;
    while (size_t(memory_.shared()->groupsDone) < groups_.size()) {
      fork();
      Outcome outcome = watch();
      killRanks();
      writeFinished(false);
      if (outcome == Outcome::Finished) break;
      if (outcome == Outcome::NotStarted) {
        if (++failedStarts >= 5 || noGpu_ || options_.dry) {
          fprintf(stderr, "the ranks cannot be started:\n%s\n", stderrTails().c_str());
          return 3;
        }
        if (failedStarts == 1) fprintf(stderr, "the ranks did not start, trying again:\n%s\n", stderrTails().c_str());
        sleep(failedStarts * 3);  // MPS needs some seconds after a client was killed
        continue;
      }
      failedStarts = 0;
      if (++restarts > options_.restarts) {
        fprintf(stderr, "%d restarts are enough\n", restarts);
        return 3;
      }
      if (!options_.dry && outcome != Outcome::CleanRestart) sleep(1);
    }
    writeFinished(true);
    return 0;
  }

 private:
  enum class Outcome { Finished, CleanRestart, Failed, NotStarted };

  void fork() {
    memory_.resetForStart();
    Shared* shared = memory_.shared();
    shared->beat = nowNs();
    shared->beatLimit = (long long)(options_.startLimit * 1e9);
    pids_.assign(options_.ranks, -1);
    for (int r = 0; r < options_.ranks; r++) {
      fflush(nullptr);
      pid_t pid = ::fork();
      if (pid < 0) throw std::runtime_error("cannot fork");
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int file = open(stderrFile(r).c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
        if (file >= 0) {
          if (!options_.verbose || r) dup2(file, 2);
          dup2(file, 1);
        }
        _exit(runRank(r, options_, jobs_, memory_));
      }
      pids_[r] = pid;
    }
  }

  // Waits until the ranks are through, or one has failed or is late. The failed job gets its status here.
  Outcome watch() {
    Shared* shared = memory_.shared();
    int running = options_.ranks;
    bool restart = false;
    long long refusedSince = 0;
    while (running) {
      int code = 0;
      pid_t pid = waitpid(-1, &code, WNOHANG);
      if (pid > 0) {
        int rank = int(std::find(pids_.begin(), pids_.end(), pid) - pids_.begin());
        if (rank == options_.ranks) continue;
        pids_[rank] = -1;
        running--;
        if (WIFEXITED(code) && WEXITSTATUS(code) == kDone) continue;
        if (WIFEXITED(code) && WEXITSTATUS(code) == kRestart) {
          restart = true;
          continue;
        }
        noGpu_ = WIFEXITED(code) && WEXITSTATUS(code) == kNoGpu;
        // A moment for the other ranks to say what they saw.
        usleep(200000);
        if (shared->initialised < options_.ranks) return Outcome::NotStarted;
        std::string how = WIFSIGNALED(code) ? std::string("killed by signal ") + strsignal(WTERMSIG(code))
                                            : "exit code " + std::to_string(WEXITSTATUS(code));
        blame(Status::Crash, "rank " + std::to_string(rank) + ": " + how + "\n" + tail(stderrFile(rank)));
        return Outcome::Failed;
      }
      long long now = nowNs(), late = now - shared->beat;
      if (late > shared->beatLimit) {
        if (shared->initialised < options_.ranks) return Outcome::NotStarted;
        char text[100];
        snprintf(text, sizeof text, "no progress for %.1f s", late / 1e9);
        blame(shared->refusedAt ? Status::Refused : Status::Hang, text);
        return Outcome::Failed;
      }
      // Some ranks refuse, the others wait for them for ever.
      int job = shared->current;
      if (job >= 0 && shared->refusedAt && memory_.state(job).status == int(Status::Pending)) {
        if (!refusedSince) refusedSince = now;
        if (now - refusedSince > 2000000000LL) {
          blame(Status::Refused, "");
          return Outcome::Failed;
        }
      } else {
        refusedSince = 0;
      }
      writeFinished(false);
      usleep(pid == 0 ? 5000 : 0);
    }
    return restart ? Outcome::CleanRestart : Outcome::Finished;
  }

  void blame(Status status, const std::string& text) {
    int job = memory_.shared()->current;
    if (job < 0) {
      // Between jobs: the first job without a result takes it, or the run would not get any further.
      for (size_t j = 0; j < jobs_.size(); j++)
        if (memory_.state(j).status == int(Status::Pending)) {
          job = int(j);
          break;
        }
    }
    if (job < 0) return;
    JobState& state = memory_.state(job);
    // A failure while timing leaves the check's result; it is still the job's failure.
    if (state.status != int(Status::Pending) && state.status != int(Status::Ok)) return;
    state.status = int(status);
    if (!state.text[0]) snprintf(state.text, sizeof state.text, "%s", text.c_str());
    if (jobs_[job].isNccl() && ++ncclFailures_ == 3) giveUpNccl();
    if (options_.verbose) fprintf(stderr, "%s %s: %s\n", statusName(status), jobs_[job].id.c_str(), text.c_str());
  }

  // NCCL does not work here: do not wait for it again and again.
  void giveUpNccl() {
    for (size_t j = 0; j < jobs_.size(); j++) {
      JobState& state = memory_.state(j);
      if (!jobs_[j].isNccl() || state.status != int(Status::Pending)) continue;
      state.unreadable = 1;
      state.textLock = 1;
      snprintf(state.text, sizeof state.text, "not tried: NCCL had failed three times");
    }
  }

  void killRanks() {
    for (pid_t pid : pids_)
      if (pid > 0) kill(pid, SIGKILL);
    // A process whose kernel is stuck may take its time to die; do not wait for ever.
    long long until = nowNs() + 20000000000LL;
    for (pid_t& pid : pids_) {
      while (pid > 0 && waitpid(pid, nullptr, WNOHANG) == 0 && nowNs() < until) usleep(10000);
      pid = -1;
    }
  }

  // Writes the groups that are finished; at the end whatever has a status.
  void writeFinished(bool all) {
    while (written_ < groups_.size() && (all || int(written_) < memory_.shared()->groupsDone)) {
      for (size_t j = groups_[written_].first; j < groups_[written_].second; j++) writeJob(j);
      fflush(out_);
      written_++;
      writeMachine();
    }
  }

  void writeJob(size_t j) {
    const Job& job = jobs_[j];
    JobState& state = memory_.state(j);
    Status status = Status(state.status.load());
    if (status == Status::Pending) return;
    nlohmann::ordered_json line;
    line["id"] = job.id;
    line["status"] = statusName(status);
    line["collective"] = collectiveName(job.collective);
    line["ranks"] = options_.ranks;
    line["bytes"] = job.bytes;
    line["type"] = typeName(job.type);
    line["form"] = job.inPlace ? "in" : "out";
    line["checked"] = bool(state.checked);
    if (state.inputChanged) line["input_changed"] = true;
    if (status != Status::Ok && state.text[0]) line["text"] = std::string(state.text);
    if (status == Status::Refused) line["refused_by"] = state.refusals.load();
    if (state.detail[0]) line["first_wrong"] = nlohmann::ordered_json::parse(state.detail, nullptr, false);
    if (status == Status::Ok && job.time) {
      std::vector<float> samples, medians;
      std::vector<double> rounded;
      for (int round = 0; round < options_.rounds; round++) {
        float* s = memory_.samples(j, round);
        std::vector<float> one(s, s + options_.launches);
        samples.insert(samples.end(), one.begin(), one.end());
        medians.push_back(float(quantile(one, 0.5)));
        rounded.push_back(round3(medians.back()));
      }
      line["median_us"] = round3(quantile(medians, 0.5));
      line["p10"] = round3(quantile(samples, 0.1));
      line["p90"] = round3(quantile(samples, 0.9));
      line["min"] = round3(quantile(samples, 0));
      line["rounds"] = rounded;
      line["launches"] = options_.launches;
      line["calls"] = state.clockCalls;
      line["clock"] = state.clockInGraph ? "graph" : "launch";
    }
    if (job.blocks) {
      line["blocks"] = job.blocks;
      line["threads"] = job.threads;
    }
    fprintf(out_, "%s\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }

  void writeMachine() {
    if (!memory_.shared()->machine[0] || machineWritten_) return;
    std::ofstream(options_.out + ".machine.json") << memory_.shared()->machine << "\n";
    machineWritten_ = true;
  }

  std::string stderrFile(int rank) const { return folder_ + "/stderr." + std::to_string(rank); }

  static std::string tail(const std::string& path) {
    std::ifstream file(path);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    return text.size() > 450 ? text.substr(text.size() - 450) : text;
  }

  std::string stderrTails() const {
    std::string all;
    for (int r = 0; r < options_.ranks; r++) {
      std::string text = tail(stderrFile(r));
      if (!text.empty() && all.find(text) == std::string::npos) all += text;
    }
    return all;
  }

  const Options& options_;
  std::vector<Job> jobs_;
  Memory memory_;
  std::vector<std::pair<size_t, size_t>> groups_;
  std::vector<pid_t> pids_;
  std::string folder_;
  FILE* out_ = nullptr;
  size_t written_ = 0;
  bool machineWritten_ = false;
  bool noGpu_ = false;
  int ncclFailures_ = 0;
};

// A default for a variable that is not set.
void preset(const char* name, const char* value) { setenv(name, value, 0); }

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string error;
  if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
    fputs(usage(), stdout);
    return 0;
  }
  if (!parseOptions(argc, argv, options, error)) {
    fprintf(stderr, "driver: %s\n%s", error.c_str(), usage());
    return 2;
  }
  if (options.ranks > options.gpus) {
    // Ranks that wait for one another share a GPU: nothing may be loaded behind a waiting kernel, and
    // every process keeps its number of hardware queues small.
    preset("CUDA_MODULE_LOADING", "EAGER");
    preset("CUDA_DEVICE_MAX_CONNECTIONS", "4");
  }
  // All ranks are on this host.
  preset("MSCCLPP_SOCKET_IFNAME", "lo");
  preset("NCCL_SOCKET_IFNAME", "lo");
  preset("MSCCLPP_LOG_LEVEL", "ERROR");
  try {
    Launcher launcher(options, readJobs(options.jobs, options));
    return launcher.run();
  } catch (const std::exception& e) {
    fprintf(stderr, "driver: %s\n", e.what());
    return 2;
  }
}
