#pragma once

#include "weft/graph/ir/program.h"
#include "weft/overlap/overlap_cost.h"
#include "weft/overlap/overlap_mode.h"

namespace weft::graph {

struct OverlapOptions {
  OverlapMode mode = OverlapMode::Auto; // where it pays, nowhere, or wherever it can be
  /// What is reckoned with; those that are not given are rates_of the program's mesh (overlap/measure/mesh_rates.h),
  /// asked for only if a collective is large enough to matter.
  std::optional<Link> link = std::nullopt;
  std::optional<Compute> compute = std::nullopt;
};

/// What became of a collective that could run beside matmuls, and why.
struct OverlapDecision {
  std::string node;   // what the collective gave: "all_gather_3"
  std::string module; // "layers.0.attention.wq"
  std::string kind;   // "all_gather", "reduce_scatter", "all_reduce"
  std::string group;  // "tp"
  bool fused = false;
  int64_t matmuls = 0; // that run beside it
  int64_t chunks = 0;  // per member
  double predicted_gain_seconds = 0;
  std::string reason;

  /// "all_gather_3 over tp, in layers.0: fused with 3 matmuls, 4 chunks, 1.2ms less: ..."
  std::string to_string() const;
};
using OverlapDecisions = std::vector<OverlapDecision>;

/// Decides by the options. The same for all ranks: a function of the case and of rates that are. What other compute of the
/// program hides of a collective, as it is now, is no gain, unless overlap is forced.
class OverlapGate {
 public:
  OverlapGate(const Program& program, const OverlapOptions& options);

  struct Verdict {
    bool fuse = false;
    int64_t chunks = 1;
    double gain_seconds = 0;
    std::string reason;
  };
  /// Of a collective over a group. `more_collectives`: those that there will be beside the ones there are now.
  Verdict decide(
      const OverlapCase& overlap,
      const Node& collective,
      const std::string& group,
      int64_t more_collectives = 0) const;

  /// The sizes of a value as the rank that holds most has them; symbols are what they were at the export.
  std::vector<int64_t> largest_part(const Value& value) const;

 private:
  struct Rates {
    Link link;
    Compute compute;
  };
  struct Hidden {
    double seconds;
    std::string by; // "%mm"
  };

  Rates rates_for(const Node& collective, const std::string& group, int64_t members) const;
  void find_hidden();

  const Program& program_;
  OverlapOptions options_;
  Size::Values hints_;
  std::unordered_map<std::string, Hidden> hidden_; // by the name of what the collective gives
};

} // namespace weft::graph
