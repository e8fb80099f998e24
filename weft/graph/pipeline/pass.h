#pragma once

#include "weft/graph/localize/localize.h"
#include "weft/graph/overlap/overlap_decision.h"
#include "weft/graph/parallelize/tensor_parallel_options.h"
#include "weft/styles/parallel_plan.h"

namespace weft::graph {

/// The forms of a program on its way to a rank.
enum class ProgramForm : uint8_t {
  Global,   // of global tensors, as it was exported
  Parallel, // of global tensors with layouts, and redistributions: the same for all ranks
  Rank,     // of one rank's local tensors, and collectives
};

/// What passes need beside the program, and what they find out.
struct PassContext {
  // From Global to Parallel.
  DeviceMesh mesh = {};
  nn::ParallelPlan plan = {};
  TensorParallelOptions tensor_parallel = {};
  OverlapOptions overlap = {};
  OverlapDecisions decisions = {}; // those of micro_pipeline

  // From Parallel to Rank.
  const Program* parallel = nullptr; // the program that those of all ranks are made of
  int64_t rank = 0;
  LocalizeOptions localize = {};
};

/// A pass of the compiler. A pipeline is a list of them (shard.cpp has two).
struct Pass {
  const char* name;
  ProgramForm takes;
  ProgramForm gives;
  /// Returns whether it changed anything.
  bool (*run)(Program& program, PassContext& context);
  /// Where this says no, the pass is left out. None: it never is.
  bool (*applies)(const PassContext& context) = nullptr;
};

struct PassOptions {
  /// Verify the program after each pass; a debug build always does. The error names the pass.
  bool verifies = false;
  /// Where to write the program's text after each pass, as PassDump says; nowhere if empty.
  std::string dump_folder = {};
};

/// Runs passes in order on a program of this form. Raises an internal error for a pass that takes another form than the one
/// before it gives. Returns whether any of them changed anything.
bool run_passes(
    c10::ArrayRef<Pass> passes,
    Program& program,
    ProgramForm form,
    PassContext& context,
    const PassOptions& options = {});

} // namespace weft::graph
