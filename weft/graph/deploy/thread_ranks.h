#pragma once

#include "weft/comm/world/run_on_ranks.h"
#include "weft/graph/exec/executor.h"

namespace weft::graph {

/// Runs the programs of all ranks of a mesh in this process, each rank being a thread with an executor of its own. They
/// stay between runs.
///
///   ThreadRanks ranks(programs);                       // programs[r] is rank r's
///   auto outputs = ranks.run_alike({tokens});          // outputs[r][0] is rank r's first output
///
/// A process that is one rank, started by torchrun or mpirun, makes an Executor of its rank's program instead.
class ThreadRanks {
 public:
  using Values = std::vector<c10::IValue>;

  explicit ThreadRanks(std::vector<std::shared_ptr<const Program>> programs, RunOptions options = {});
  ~ThreadRanks();
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  int64_t size() const;

  /// The inputs of every rank; gives the outputs of every rank. Inputs that do not fit raise before anything runs. When a
  /// rank fails the first error is rethrown, with its rank, and there are no more runs.
  std::vector<Values> run(std::vector<Values> inputs);
  /// All ranks get the same inputs; of those that the program changes, rank 0 changes the caller's, the others copies.
  std::vector<Values> run_alike(const Values& inputs);

  void manual_seed(uint64_t seed);
  /// To be asked between runs.
  const Executor& executor(int64_t rank) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace weft::graph
