#pragma once

#include "weft/graph/localize/localize.h"
#include "weft/graph/overlap/overlap_decision.h"
#include "weft/graph/parallelize/tensor_parallel_options.h"
#include "weft/styles/parallel_plan.h"

namespace weft::graph {

/// The forms of a program on its way to the program of a rank.
enum class ProgramForm : uint8_t {
  Global,   // global tensors, as exported
  Parallel, // global tensors with layouts, and redistributions: the same for all ranks
  Rank,     // one rank's local tensors, and collectives
};

/// The inputs of passes other than the program, and the results that they report.
struct PassContext {
  // From Global to Parallel.
  DeviceMesh mesh = {};
  nn::ParallelPlan plan = {};
  TensorParallelOptions tensor_parallel = {};
  OverlapOptions overlap = {};
  OverlapDecisions decisions = {}; // those of micro_pipeline

  // From Parallel to Rank.
  const Program* parallel = nullptr; // the program that the programs of all ranks are made from
  int64_t rank = 0;
  LocalizeOptions localize = {};
};

/// A pass of the compiler. A pipeline is a list of passes (shard.cpp has two).
struct Pass {
  const char* name;
  ProgramForm takes;
  ProgramForm gives;
  /// Returns whether it changed anything.
  bool (*run)(Program& program, PassContext& context);
  /// The pass is skipped if this returns false. If it is empty, the pass always runs.
  bool (*applies)(const PassContext& context) = nullptr;
};

struct PassOptions {
  /// Verifies the program after each pass; a debug build always does. The error names the pass.
  bool verifies = false;
  /// The folder for the program's text after each pass, see PassDump; empty for none.
  std::string dump_folder = {};
};

/// Runs passes in order on a program of this form. Raises an internal error for a pass that takes another form than the
/// previous one returns. Returns whether any pass changed anything.
bool run_passes(
    c10::ArrayRef<Pass> passes,
    Program& program,
    ProgramForm form,
    PassContext& context,
    const PassOptions& options = {});

} // namespace weft::graph
