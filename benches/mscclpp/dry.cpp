// Runs without a GPU: plans are read, the rest is pretended, faults included.
#include <signal.h>
#include <unistd.h>

#include "rank.hpp"

namespace harness {

void RankProcess::dryGroup(size_t first, size_t last) {
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

}  // namespace harness
