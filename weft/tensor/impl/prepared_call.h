#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/propagation/decide.h"
#include "weft/redistribute/execute.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/core/ivalue.h>

namespace weft {

struct OverlappedCall;

/// A tensor that a prepared call returns.
struct PreparedOutput {
  static PreparedOutput of(SpecPtr spec, c10::Device device) {
    auto like = c10::make_intrusive<DTensorImpl>(AsyncTensor(), spec, device);
    return {.spec = std::move(spec), .like = std::move(like)};
  }

  SpecPtr spec;                         // nullptr for an undefined output (a gradient that is not needed)
  c10::intrusive_ptr<DTensorImpl> like; // a tensor of that spec without data
  int64_t offset = 0;                   // of a view, in elements of the global tensor
  bool is_view = false;                 // shares the memory of an argument
  bool is_copy = false;                 // a view that had to be redistributed: must not be written to
  bool contiguous = true;               // by the spec's strides
};

/// How a call is run and why, as text for users.
struct Explanation {
  std::string op;
  std::vector<std::string> inputs; // specs
  std::string strategy;            // "{S(0)} {R} -> {S(0)}"
  std::vector<std::string> plans;  // of the inputs that are redistributed: "1: all_gather(tp: S(1) -> R)"
  int64_t bytes = 0;               // received by the rank that receives most
  std::string why;

  std::string to_string() const;
};

/// How a call is run: decided once, the same on every rank, then repeated.
struct PreparedCall {
  struct LocalArgument {
    int64_t argument;
    c10::IValue value;
  };
  /// How a lookup in a table with sharded rows is done on this rank; see Rule::Lookup.
  struct Lookup {
    int64_t operand;
    int64_t begin; // the first position that this rank holds
    int64_t length;
    int64_t size;      // the number of positions on all ranks
    bool masks_output; // masks the output, or else the first operand
    int64_t table;     // if it masks the output: the operand that the positions refer to, and its dim
    int64_t table_dim;
  };
  using Moves = std::vector<std::shared_ptr<const CompiledPlan>>;
  /// For an operand that is written to where its own layout cannot hold the result: the operator writes to a tensor of
  /// another layout, which is then redistributed to the operand's layout and copied to the operand's memory.
  ///
  ///   cumsum_(x {S(0)}, 0)   runs on the gathered x, and every rank copies its shard of the sums to its local tensor
  struct WriteBack {
    size_t operand;
    std::shared_ptr<const CompiledPlan> plan;
    /// If the operator does not read the operand: the local sizes of the tensor that it writes to. The operand's values
    /// are not redistributed then.
    std::optional<std::vector<int64_t>> unread_sizes;
  };

  std::vector<SpecPtr> operands; // keep the addresses in the key alive
  DeviceMesh mesh;               // likewise, of a from_local
  Moves moves;                   // per operand, nullptr if its layout stays; empty if all stay
  std::vector<WriteBack> write_backs;
  std::vector<LocalArgument> local_arguments; // local sizes, in the place of arguments that state global sizes
  std::vector<Decision::ExpectedOutput> expected;
  std::vector<PreparedOutput> outputs; // of the returned tensors that are not arguments
  bool outputs_known = false;          // if not, the first results decide
  bool is_direct = false; // outputs are known, and the call only runs the local operator and wraps its results
  std::optional<Lookup> lookup;
  const Decomposition* decomposition = nullptr;
  std::shared_ptr<OverlappedCall> overlapped; // of a matmul that can overlap with gathering its left operand
  bool communicates = false;
  bool is_fallback = false;
  bool is_outside = false;          // this rank is not in the mesh: the results hold nothing
  bool has_registered_rule = false; // by the user: the first results are compared with what it says
  /// Whether the call passes terms of a sum on and was prepared for numbers with which it is linear (see
  /// weft/propagation/linear_numbers.h). With others it has to be prepared anew.
  bool needs_linear_numbers = false;
  std::shared_ptr<const Explanation> explanation;
};

} // namespace weft
