// Times: CUDA graphs of several calls, replayed in rounds.
#include <algorithm>

#include "rank.hpp"

namespace harness {

RankProcess::Timed RankProcess::capture(size_t index, Group& group) {
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
float RankProcess::launch(const Timed& t, const Job& job) {
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

void RankProcess::timeJobs(const std::vector<size_t>& timed, Group& group) {
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
      // Replays use one input again and again: their output is known only if the calls leave it alone.
      bool verify = round == options_.rounds - 1 && jobs_[j].check && !jobs_[j].inPlace && !memory_.state(j).inputChanged;
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

void RankProcess::timeRound(size_t j, int round, const Timed& graph, Group& group) {
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
bool RankProcess::replayBad(size_t j, Group& group) {
  const Job& job = jobs_[j];
  Call call = callOf(job, group);
  clearFindings();
  checkOutput(shapeOf(job, replaySeed(j)), call.recv, findings_, stream_);
  checkGuards(group);
  return bad(j, job, call, "replayed", 1, replaySeed(j));
}

}  // namespace harness
