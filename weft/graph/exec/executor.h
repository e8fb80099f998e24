#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// Runs a program of one rank, or one that is not sharded, in inference mode. It is made ready once; after that a run is a
/// flat list of operator calls, in which values are freed at their last use and collectives are under way from where they
/// stand to where they are waited for.
///
///   Executor executor(program);                  // on every rank: the members of groups meet
///   auto logits = executor.run({tokens})[0].toTensor();
///
/// The program is not changed: weights that are written to are copied when the executor is made, and its own copies keep
/// what runs write. Random operators draw as RandomSource says. One run at a time.
class Executor {
 public:
  /// Collectives go over `mesh`, which has the dims of the program's mesh; where none is given, over the program's mesh on
  /// current_world().
  explicit Executor(std::shared_ptr<const Program> program, DeviceMesh mesh = {});
  ~Executor();
  Executor(Executor&&) noexcept;
  Executor& operator=(Executor&&) noexcept;

  /// The user inputs in order, flat, constant ones too; gives the user outputs in order, flat. Inputs that the program
  /// changes are changed. After an error in a collective the ranks may be apart: make them anew.
  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs);
  /// Raises as run() does for inputs that the program is not for.
  void check_inputs(c10::ArrayRef<c10::IValue> inputs) const;
  /// Whether runs write to this user input.
  bool changes_input(size_t input) const;

  /// From now on random operators draw from this seed, which must be the same on all ranks.
  void manual_seed(uint64_t seed);

  /// The parameter, buffer or constant of this name as it is now.
  const at::Tensor& tensor(const std::string& name) const;

  const Program& program() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace weft::graph
