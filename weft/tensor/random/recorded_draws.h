#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/tensor/random/random_distribution.h"
#include "weft/tensor/random/random_state.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace weft {

/// Random numbers in traced programs. A program numbers its draws from 0, in the order in which it is traced, which is
/// that of eager mode. A run of the program takes as many calls of the rank's random state as it has draws, all at once
/// when it begins, so that every draw has the number of eager mode, whenever the compiled program computes it:
///
///   call = weft::random_call(0)                     // [seed, number] of the first draw of this run
///   mask = weft::random_numbers(call, ...)          // a function of its arguments; may be computed again in backward
///
/// What a thread does with draws of traced tensors.
enum class TracedDraws : uint8_t {
  Refused,    // an error: nothing would take the calls when the program runs
  Unnumbered, // nothing is drawn: the pass finds out shapes alone
  Recorded,
};

/// The draws that a program has recorded.
struct RecordedDraws {
  int64_t calls = 0;
  std::vector<DeviceMesh> meshes = {}; // of the tensors, each once
};

/// Sets what this thread does with draws of traced tensors; returns what it did before.
TracedDraws exchange_traced_draws(TracedDraws draws);
/// The draws that this thread has recorded since the last call of this function.
RecordedDraws take_recorded_draws();

/// Writes to a traced local tensor the numbers of a draw, by the operators above.
void record_draw(
    const at::Tensor& local,
    const TensorSpec& spec,
    const Distribution& distribution,
    const std::optional<at::Generator>& generator);

/// A run of a program takes the calls of its draws from the rank's state. Until the object is destroyed this thread's
/// random_call counts from the first of them.
class DrawnCalls {
 public:
  explicit DrawnCalls(const RecordedDraws& draws);
  ~DrawnCalls();
  DrawnCalls(const DrawnCalls&) = delete;
  DrawnCalls& operator=(const DrawnCalls&) = delete;

 private:
  std::optional<RandomCall> outer_;
};

bool is_distributed_of_tracer(const at::Tensor& tensor);
/// In a traced program, an error at its run unless a distributed tensor of one bool is true, on every rank alike.
void assert_when_run(const at::Tensor& condition, const std::string& message);

} // namespace weft
