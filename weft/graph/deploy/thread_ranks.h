#pragma once

#include "weft/comm/world/run_on_ranks.h"
#include "weft/graph/exec/executor.h"

namespace weft::graph {

/// Runs the programs of all ranks of a mesh in this process. Each rank is a thread with its own executor; the threads
/// stay between runs.
///
///   ThreadRanks ranks(programs);                       // programs[r] is rank r's
///   auto outputs = ranks.run_alike({tokens});          // outputs[r][0] is rank r's first output
///
/// A process that is one rank, started by torchrun or mpirun, creates an Executor of its rank's program instead.
class ThreadRanks {
 public:
  using Values = std::vector<c10::IValue>;

  explicit ThreadRanks(std::vector<std::shared_ptr<const Program>> programs, RunOptions options = {});
  ~ThreadRanks();
  ThreadRanks(const ThreadRanks&) = delete;
  ThreadRanks& operator=(const ThreadRanks&) = delete;

  int64_t size() const;

  /// Takes the inputs of every rank and returns the outputs of every rank. Inputs that do not fit raise before anything
  /// runs. If a rank fails, the first error is rethrown with its rank, and no more runs are possible.
  std::vector<Values> run(std::vector<Values> inputs);
  /// All ranks get the same inputs. If the program changes an input, rank 0 changes the caller's tensor, and the other
  /// ranks change copies.
  std::vector<Values> run_alike(const Values& inputs);

  void manual_seed(uint64_t seed);
  /// Must be called between runs.
  const Executor& executor(int64_t rank) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace weft::graph
