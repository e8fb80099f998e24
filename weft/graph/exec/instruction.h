#pragma once

#include "weft/graph/exec/source.h"
#include "weft/graph/ir/graph.h"

namespace weft::graph {

/// A prepared step of a run: it reads slots of the frame and writes its results to slots.
class Instruction {
 public:
  virtual ~Instruction() = default;
  virtual void run(Frame& frame) const = 0;
};

/// The slots of a node's outputs; kUnused for an output without uses.
struct OutputSlots {
  static constexpr uint32_t kUnused = ~uint32_t{0};

  std::vector<uint32_t> slots;
  std::vector<int64_t> lists; // as Node::output_lists
};

/// Calls an operator through the dispatcher. The operator writes to the arguments at these positions.
std::unique_ptr<Instruction> make_operator_call(
    const c10::OperatorHandle& op,
    std::vector<size_t> written,
    std::vector<Source> arguments,
    OutputSlots outputs);

/// Calls a function of numbers.
std::unique_ptr<Instruction> make_function_call(
    const ScalarFunction& function,
    std::vector<Source> arguments,
    OutputSlots outputs);

/// sym_size.int, sym_stride.int, sym_numel and sym_storage_offset, without the dispatcher, which would take longer than
/// reading the number. nullptr for another operator.
std::unique_ptr<Instruction> make_size_read(
    const c10::OperatorHandle& op,
    const std::vector<Source>& arguments,
    const OutputSlots& outputs);

} // namespace weft::graph
