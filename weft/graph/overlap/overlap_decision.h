#pragma once

#include "weft/graph/ir/program.h"
#include "weft/overlap/overlap_cost.h"
#include "weft/overlap/overlap_mode.h"

namespace weft::graph {

struct OverlapOptions {
  OverlapMode mode = OverlapMode::Auto; // overlap where it pays, nowhere, or wherever it is possible
  /// The mode of collectives over groups of these names, where it is another one.
  std::map<std::string, OverlapMode> modes_of_groups = {};
  /// The rates that times are estimated with. Where they are not given, rates_of the program's mesh is used
  /// (overlap/measure/mesh_rates.h), but only if a collective is large enough to matter.
  std::optional<Link> link = std::nullopt;
  std::optional<Compute> compute = std::nullopt;
  /// The rates of groups, by name, where they are measured and not given above (see micro_pipeline_together).
  struct Rates {
    Link link;
    Compute compute;
  };
  std::map<std::string, Rates> rates_of_groups = {};
  /// In a rank's program: the number of members of the groups that exist, which an all-reduce does not state.
  std::map<std::string, int64_t> members = {};
  /// In a rank's program: the chunks of every collective that all members of its group fuse, by the name of its result
  /// (see micro_pipeline_together). No other collective is fused.
  std::optional<std::map<std::string, int64_t>> agreed_chunks = std::nullopt;

  OverlapMode mode_of(const std::string& group) const;
  /// Whether no collective is to be fused.
  bool is_off() const;
};

/// Whether a collective was fused with matmuls that overlap it, and why.
struct OverlapDecision {
  std::string node;   // the name of the collective's result: "all_gather_3"
  std::string module; // "layers.0.attention.wq"
  std::string kind;   // "all_gather", "reduce_scatter", "all_reduce"
  std::string group;  // "tp"
  bool fused = false;
  int64_t matmuls = 0;      // how many overlap it
  int64_t chunks = 0;       // per member
  bool is_by_rates = false; // rates decided, and not sizes or forms alone
  double predicted_gain_seconds = 0;
  std::string reason;

  /// "fused with 3 matmuls, 4 chunks, gains 1.2ms", or "not fused"
  std::string outcome() const;
  /// "all_gather %all_gather_3 over tp, in layers.0: fused with 3 matmuls, 4 chunks, gains 1.2ms: ..."
  std::string to_string() const;
  /// One object of all members, and "text".
  std::string to_json() const;
};
using OverlapDecisions = std::vector<OverlapDecision>;

/// Decides by the options. All ranks decide alike, because the case and the rates are the same on all of them. Time of
/// a collective that other compute of the program hides already does not count as a gain, unless overlap is forced.
class OverlapGate {
 public:
  OverlapGate(const Program& program, const OverlapOptions& options);

  struct Verdict {
    bool fuse = false;
    int64_t chunks = 1;
    double gain_seconds = 0;
    std::string reason;
    bool is_by_rates = false;
  };
  /// Decides on a collective over a group. `more_collectives`: how many collectives the fusion adds to the program.
  Verdict decide(
      const OverlapCase& overlap,
      const Node& collective,
      const std::string& group,
      int64_t more_collectives = 0) const;

  /// The sizes of the largest local tensor of a value, dim by dim. Symbols have the values that they had at the
  /// export.
  std::vector<int64_t> largest_local_sizes(const Value& value) const;

 private:
  using Rates = OverlapOptions::Rates;
  struct Hidden {
    double seconds;
    std::string by; // "%mm"
  };

  Rates rates_for(const Node& collective, const std::string& group, int64_t members) const;
  void find_hidden();
  Verdict own_verdict(
      const OverlapCase& overlap,
      const Node& collective,
      const std::string& group,
      int64_t more_collectives) const;

  const Program& program_;
  OverlapOptions options_;
  Size::Values hints_;
  std::unordered_map<std::string, Hidden> hidden_; // by the name of the collective's result
};

} // namespace weft::graph
