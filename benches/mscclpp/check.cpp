// Checks: every element of every call.
#include <algorithm>

#include "rank.hpp"

namespace harness {

// New data, poisoned output.
void RankProcess::prepare(const Job& job, const Call& call, const Shape& shape) {
  if (job.collective == Collective::AllGather || !job.inPlace)  // else the output is the input
    CUDA(cudaMemsetAsync(call.recv, kPoison, call.recvBytes, stream_));
  fillInput(shape, call.send, stream_);
  CUDA(cudaGetLastError());
}

bool RankProcess::check(size_t index, Group& group) {
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

void RankProcess::clearFindings() {
  std::vector<Finding> clean(kFindings, Finding{~0ull, 0});
  CUDA(cudaMemcpyAsync(findings_, clean.data(), kFindings * sizeof(Finding), cudaMemcpyHostToDevice, stream_));
  CUDA(cudaStreamSynchronize(stream_));
}

void RankProcess::checkGuards(const Group& group) {
  checkBytes(group.in.base + group.in.size, group.in.total - group.in.size, kGuard, findings_ + kFindings - 2, stream_);
  checkBytes(group.out.base + group.out.size, group.out.total - group.out.size, kGuard, findings_ + kFindings - 3, stream_);
}

// Reads what the checks found; says the first thing that is wrong.
bool RankProcess::bad(size_t index, const Job& job, const Call& call, const char* pattern, int calls, uint64_t firstSeed) {
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

}  // namespace harness
