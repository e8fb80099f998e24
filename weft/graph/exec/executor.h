#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

struct ExecutorOptions {
  /// Whether runs write to the program's own tensors. By default those that are written to are copied when the executor
  /// is made.
  bool writes_to_tensors = false;
};

/// Runs the program of one rank, or one that is not sharded, in inference mode. Preparing it once turns it into a flat
/// list of operator calls. A run frees values at their last use, and a collective runs in the background from its node
/// to its wait.
///
///   Executor executor(program);                  // on every rank: the members of groups meet
///   auto logits = executor.run({tokens})[0].toTensor();
///
/// The program is not changed, unless the options say so: weights that are written to are copied when the executor is
/// made, and the copies keep the writes of all runs. Random operators draw as RandomSource says. Only one run at a time is possible.
class Executor {
 public:
  /// Collectives use `mesh`, which has the dims of the program's mesh; if none is given, the program's mesh on
  /// current_world().
  explicit Executor(std::shared_ptr<const Program> program, DeviceMesh mesh = {}, ExecutorOptions options = {});
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  /// Takes the flat user inputs in order, including constant ones, and returns the flat user outputs in order. Inputs
  /// that the program changes are changed. After an error in a collective the ranks may be out of step: create new
  /// executors then.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs);
  /// Raises as run() does for inputs that do not fit the program.
  void check_inputs(c10::ArrayRef<c10::IValue> inputs) const;
  /// Whether runs write to this user input.
  bool changes_input(size_t input) const;
  /// Whether runs write to the parameter, buffer or constant of this name.
  bool changes_tensor(const std::string& name) const;

  /// Lets random operators draw from this seed from now on. It must be the same on all ranks.
  void manual_seed(uint64_t seed);

  /// The current value of the parameter, buffer or constant of this name.
  const at::Tensor& tensor(const std::string& name) const;

  const Program& program() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace weft::graph
