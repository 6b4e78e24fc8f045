// Command line, job file, and what is read from plans before they run.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <stdexcept>

#include "shared.hpp"

namespace harness {

long long nowNs() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

const char* statusName(Status status) {
  switch (status) {
    case Status::Ok: return "ok";
    case Status::Wrong: return "wrong";
    case Status::Refused: return "refused";
    case Status::Crash: return "crash";
    case Status::Hang: return "hang";
    default: return "pending";
  }
}

const char* collectiveName(Collective c) {
  switch (c) {
    case Collective::AllGather: return "allgather";
    case Collective::ReduceScatter: return "reducescatter";
    case Collective::AllReduce: return "allreduce";
    default: return "alltoall";
  }
}

const char* typeName(Type t) {
  switch (t) {
    case Type::Float: return "float";
    case Type::Half: return "half";
    case Type::Bf16: return "bf16";
    default: return "int";
  }
}

const char* usage() {
  return "usage: driver --ranks N --jobs FILE --out FILE [options]\n"
         "  --ranks N        processes, one per rank\n"
         "  --gpus N         GPUs to spread them over (default 1)\n"
         "  --jobs FILE      one job a line: id=… plan=FILE|nccl coll=… bytes=… [type=float|half|bf16|int]\n"
         "                   [form=in|out] [do=check|time|both] [iters=N] [group=…] [limit=SECONDS]\n"
         "                   [name=unique|keep] [packet=ll16|ll8]\n"
         "  --out FILE       results, one JSON object a line (appended)\n"
         "  --nccl FILE      libnccl.so.2, for jobs with plan=nccl\n"
         "  --rounds N       rounds in which the jobs of a group take turns (default 1)\n"
         "  --launches N     graph launches per round (default 31)\n"
         "  --warmups N      launches before the first round (default 2)\n"
         "  --fresh N --chained N --skewed N   calls of each kind in a check (default 2, 6, 6)\n"
         "  --limit S        seconds one step of a job may take (default 10)\n"
         "  --start-limit S  seconds the ranks may take to start (default 90)\n"
         "  --restarts N     restarts after which the launcher gives up (default 200)\n"
         "  --alloc cuda|mscclpp   buffers by cudaMalloc (default) or by mscclpp::GpuBuffer (switch channels)\n"
         "  --clock graph|launch   events inside the graph (default) or around its launch\n"
         "  --seed N         seed of the data\n"
         "  --dry            no GPU: read the plans, pretend the rest (plan=dry:ok|wrong|refuse|crash|hang)\n"
         "  --verbose        say what is done on stderr\n";
}

bool parseOptions(int argc, char** argv, Options& o, std::string& error) {
  for (int i = 1; i < argc; i++) {
    std::string a = argv[i];
    auto value = [&]() -> std::string {
      if (i + 1 >= argc) throw std::runtime_error(a + " needs a value");
      return argv[++i];
    };
    auto number = [&]() {
      std::string text = value();
      char* end = nullptr;
      double v = strtod(text.c_str(), &end);
      if (end == text.c_str() || *end || v < 0) throw std::runtime_error(a + " needs a number, got '" + text + "'");
      return v;
    };
    try {
      if (a == "--ranks") o.ranks = int(number());
      else if (a == "--gpus") o.gpus = int(number());
      else if (a == "--jobs") o.jobs = value();
      else if (a == "--out") o.out = value();
      else if (a == "--nccl") o.nccl = value();
      else if (a == "--rounds") o.rounds = int(number());
      else if (a == "--launches") o.launches = int(number());
      else if (a == "--warmups") o.warmups = int(number());
      else if (a == "--fresh") o.fresh = int(number());
      else if (a == "--chained") o.chained = int(number());
      else if (a == "--skewed") o.skewed = int(number());
      else if (a == "--limit") o.limit = number();
      else if (a == "--start-limit") o.startLimit = number();
      else if (a == "--restarts") o.restarts = int(number());
      else if (a == "--seed") o.seed = uint64_t(number());
      else if (a == "--dry") o.dry = true;
      else if (a == "--verbose") o.verbose = true;
      else if (a == "--alloc") {
        std::string v = value();
        if (v != "cuda" && v != "mscclpp") throw std::runtime_error("--alloc is cuda or mscclpp");
        o.allocMscclpp = v == "mscclpp";
      } else if (a == "--clock") {
        std::string v = value();
        if (v != "graph" && v != "launch") throw std::runtime_error("--clock is graph or launch");
        o.clockInGraph = v == "graph";
      } else throw std::runtime_error("unknown option " + a);
    } catch (const std::exception& e) {
      error = e.what();
      return false;
    }
  }
  if (o.ranks < 2 || o.ranks > 64) error = "--ranks must be 2 to 64";
  else if (o.gpus < 1) error = "--gpus must be at least 1";
  else if (o.jobs.empty()) error = "--jobs is missing";
  else if (o.out.empty()) error = "--out is missing";
  else if (o.rounds < 1 || o.launches < 1) error = "--rounds and --launches must be at least 1";
  return error.empty();
}

Job parseJobLine(const std::string& line) {
  Job job;
  std::istringstream words(line);
  std::string word;
  bool haveCollective = false;
  while (words >> word) {
    auto eq = word.find('=');
    if (eq == std::string::npos) throw std::runtime_error("'" + word + "' is not key=value");
    std::string key = word.substr(0, eq), v = word.substr(eq + 1);
    if (v.empty()) throw std::runtime_error(key + " has no value");
    auto bad = [&]() -> std::runtime_error { return std::runtime_error(key + " cannot be '" + v + "'"); };
    if (key == "id") job.id = v;
    else if (key == "plan") job.plan = v;
    else if (key == "group") job.group = v;
    else if (key == "coll") {
      haveCollective = true;
      if (v == "allgather") job.collective = Collective::AllGather;
      else if (v == "reducescatter") job.collective = Collective::ReduceScatter;
      else if (v == "allreduce") job.collective = Collective::AllReduce;
      else if (v == "alltoall") job.collective = Collective::AllToAll;
      else throw bad();
    } else if (key == "type") {
      if (v == "float") job.type = Type::Float;
      else if (v == "half") job.type = Type::Half;
      else if (v == "bf16") job.type = Type::Bf16;
      else if (v == "int") job.type = Type::Int;
      else throw bad();
    } else if (key == "form") {
      if (v != "in" && v != "out") throw bad();
      job.inPlace = v == "in";
    } else if (key == "do") {
      if (v != "check" && v != "time" && v != "both") throw bad();
      job.check = v != "time";
      job.time = v != "check";
    } else if (key == "name") {
      if (v != "unique" && v != "keep") throw bad();
      job.keepName = v == "keep";
    } else if (key == "packet") {
      if (v != "ll16" && v != "ll8") throw bad();
      job.ll8 = v == "ll8";
    } else if (key == "bytes" || key == "iters" || key == "limit") {
      char* end = nullptr;
      double number = strtod(v.c_str(), &end);
      if (*end || number <= 0) throw bad();
      if (key == "bytes") job.bytes = strtoull(v.c_str(), nullptr, 10);
      else if (key == "limit") job.limit = number;
      else {
        job.iterations = int(number);
        // Packet plans alternate between two halves of their scratch by the parity of a host counter that
        // is fixed when the graph is captured: an odd number of calls would use one half twice in a row.
        if (job.iterations % 2 || job.iterations < 2) throw std::runtime_error("iters must be even");
      }
    } else throw std::runtime_error("unknown key " + key);
  }
  if (job.id.empty()) throw std::runtime_error("no id");
  if (job.plan.empty()) throw std::runtime_error("no plan");
  if (!haveCollective) throw std::runtime_error("no coll");
  if (!job.bytes) throw std::runtime_error("no bytes");
  return job;
}

std::vector<Job> readJobs(const std::string& path, const Options& options) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Job> jobs;
  std::map<std::string, size_t> ids;
  std::string line;
  for (size_t number = 1; std::getline(file, line); number++) {
    auto start = line.find_first_not_of(" \t\r");
    if (start == std::string::npos || line[start] == '#') continue;
    try {
      Job job = parseJobLine(line);
      if (!ids.emplace(job.id, number).second) throw std::runtime_error("id " + job.id + " is there twice");
      if (job.isNccl() && options.nccl.empty() && !options.dry)
        throw std::runtime_error("plan=nccl needs --nccl");
      if (job.isDry() && !options.dry) throw std::runtime_error("plan=dry:… needs --dry");
      if (!job.iterations)
        job.iterations = job.bytes <= (256u << 10) ? 30 : job.bytes <= (4u << 20) ? 14 : job.bytes <= (64u << 20) ? 6 : 4;
      if (!job.limit) job.limit = options.limit;
      if (job.group.empty()) job.group = "\n" + job.id;  // alone
      if (!jobs.empty() && jobs.back().group == job.group) {
        const Job& last = jobs.back();
        if (last.collective != job.collective || last.bytes != job.bytes || last.type != job.type)
          throw std::runtime_error("jobs of one group must have one collective, size and type");
      }
      jobs.push_back(job);
    } catch (const std::exception& e) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": " + e.what());
    }
  }
  return jobs;
}

std::vector<std::pair<size_t, size_t>> groupsOf(const std::vector<Job>& jobs) {
  std::vector<std::pair<size_t, size_t>> groups;
  for (size_t i = 0; i < jobs.size(); i++) {
    if (!groups.empty() && jobs[groups.back().first].group == jobs[i].group) groups.back().second = i + 1;
    else groups.emplace_back(i, i + 1);
  }
  return groups;
}

void preparePlan(Job& job, int ranks, size_t index, const std::string& folder) {
  if (job.isNccl() || job.isDry()) return;
  std::ifstream file(job.plan);
  if (!file) throw std::runtime_error("cannot read the plan " + job.plan);
  nlohmann::json plan = nlohmann::json::parse(file);
  const auto& gpus = plan.at("gpus");
  if (int(gpus.size()) != ranks)
    throw std::runtime_error("the plan is for " + std::to_string(gpus.size()) + " ranks, not " + std::to_string(ranks));
  if (plan.value("collective", "") != collectiveName(job.collective))
    throw std::runtime_error("the plan is of " + plan.value("collective", "?") + ", not " + collectiveName(job.collective));
  job.threads = plan.value("num_threads_per_block", 1024);
  size_t alignment = plan.value("buffer_alignment", 16), unit = alignment;
  for (const auto& gpu : gpus) {
    job.blocks = std::max<int>(job.blocks, gpu.at("threadblocks").size());
    for (const char* key : {"input_chunks", "output_chunks"}) {
      size_t chunks = gpu.value(key, 0);
      if (chunks) unit = std::lcm(unit, alignment * chunks);
    }
  }
  job.chunkUnit = unit;
  job.loadPath = job.plan;
  if (!job.keepName) {
    // The executor keeps contexts by buffers and plan name: each job gets a name of its own.
    plan["name"] = "job" + std::to_string(index) + "-" + plan.value("name", "");
    job.loadPath = folder + "/" + std::to_string(index) + ".json";
    std::ofstream copy(job.loadPath);
    copy << plan;
    if (!copy) throw std::runtime_error("cannot write " + job.loadPath);
  }
}

Memory::Memory(size_t jobs, int ranks, int rounds, int launches) : rounds_(rounds), launches_(launches) {
  size_t states = (sizeof(Shared) + 63) / 64 * 64;
  size_t times = states + jobs * sizeof(JobState);
  times = (times + 63) / 64 * 64;
  size_t samples = times + size_t(ranks) * launches * sizeof(float);
  size_t total = samples + jobs * rounds_ * launches_ * sizeof(float);
  void* base = mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw std::runtime_error("no shared memory");
  char* bytes = static_cast<char*>(base);
  shared_ = new (bytes) Shared{};
  states_ = reinterpret_cast<JobState*>(bytes + states);
  for (size_t i = 0; i < jobs; i++) new (states_ + i) JobState{};
  launchTimes_ = reinterpret_cast<float*>(bytes + times);
  samples_ = reinterpret_cast<float*>(bytes + samples);
}

void Memory::resetForStart() {
  shared_->arrived = 0;
  shared_->generation = 0;
  shared_->current = -1;
  shared_->initialised = 0;
  shared_->refusedAt = 0;
  shared_->anyBad = 0;
  shared_->idReady = 0;
  shared_->ncclIdReady = 0;
}

}  // namespace harness
