#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/propagation/decide.h"
#include "weft/redistribute/execute.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/core/ivalue.h>

namespace weft {

struct OverlappedCall;

/// A tensor that comes out of a prepared call.
struct PreparedOutput {
  SpecPtr spec;                         // none where nothing comes out (a gradient that is not wanted)
  c10::intrusive_ptr<DTensorImpl> like; // of that spec, without data
  int64_t offset = 0;                   // of a view, in elements of the whole tensor
  bool is_view = false;                 // shares the memory of an argument
  bool is_copy = false;                 // ought to be a view, but had to be moved: must not be written to
  bool contiguous = true;               // what the spec's strides say
};

/// Why a call is run as it is, for people.
struct Explanation {
  std::string op;
  std::vector<std::string> inputs; // specs
  std::string strategy;            // "{S(0)} {R} -> {S(0)}"
  std::vector<std::string> plans;  // of the inputs that are moved: "1: all_gather(tp: S(1) -> R)"
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
  /// See Rule::Lookup.
  struct Lookup {
    int64_t operand;
    int64_t begin; // of the positions that this rank holds
    int64_t length;
    int64_t size;      // of those that all ranks hold
    bool masks_output; // or else the first operand
    int64_t table;     // where it masks the output: the operand that the positions are in, and the dim
    int64_t table_dim;
  };
  using Moves = std::vector<std::shared_ptr<const CompiledPlan>>;

  std::vector<SpecPtr> operands; // keep the addresses in the key alive
  Moves moves;                   // per operand, none where it stays as it is; empty where all stay
  Moves returns_home;            // per operand: brings what was written in another layout back; empty where none does
  std::vector<LocalArgument> local_arguments; // what replaces arguments that state sizes
  std::vector<Decision::ExpectedOutput> expected;
  std::vector<PreparedOutput> outputs; // of the tensors that are not stored in arguments
  bool outputs_known = false;          // or else taken from the first results
  bool is_direct = false;              // known, and nothing is left but the local operator and its results
  std::optional<Lookup> lookup;
  const Decomposition* decomposition = nullptr;
  std::shared_ptr<OverlappedCall> overlapped; // of a matmul that can run beside the gathering of its left operand
  bool communicates = false;
  bool is_fallback = false;
  std::shared_ptr<const Explanation> explanation;
};

} // namespace weft
