#pragma once

#include "weft/styles/style.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::nn {

/// A parallel plan: the styles of a model's modules, and which of them are fully sharded, by module path with wildcards.
///
///   ParallelPlan plan = {{"layers.*.attention.w[qkv]", colwise()}, {"layers.*.attention.wo", rowwise()}};
///   ParallelPlan same = ParallelPlan::load("plan.json");
///
/// In a pattern `*` matches any text, `?` one letter, and `[abc]`, `[a-c]` and `[!abc]` one letter of a set, each
/// between two dots of a path. The empty pattern matches the model itself.
///
/// In a plan file an entry with "shard" is a unit, with or without a style: {"shard": "dp"},
/// {"shard": "dp", "replicate": "pod", "reshard_after_forward": false}, {"style": "colwise", "shard": "dp"}.
class ParallelPlan {
 public:
  struct Entry {
    std::string pattern;
    Style style;
  };

  /// Modules that are fully sharded, each by itself.
  struct Unit {
    std::string pattern;
    std::string mesh_dim;
    std::optional<std::string> replicate_dim = std::nullopt;
    std::optional<bool> reshard_after_forward = std::nullopt;

    /// Whether modules are sharded alike, whatever the pattern.
    bool is_like(const Unit& other) const {
      return mesh_dim == other.mesh_dim && replicate_dim == other.replicate_dim &&
          reshard_after_forward == other.reshard_after_forward;
    }
    /// JSON without the pattern: {"shard":"dp"}
    std::string to_string() const;
  };

  ParallelPlan() = default;
  ParallelPlan(std::initializer_list<Entry> entries) : entries_(entries) {}
  explicit ParallelPlan(std::vector<Entry> entries, std::vector<Unit> units = {})
      : entries_(std::move(entries)), units_(std::move(units)) {}

  /// Parses a JSON object of patterns and styles; style_json.h describes the styles. `name` is the name of the text in
  /// errors.
  static ParallelPlan parse(const std::string& text, const std::string& name = "plan");
  static ParallelPlan load(const std::string& path);
  std::string to_string() const;

  const std::vector<Entry>& entries() const {
    return entries_;
  }
  const std::vector<Unit>& units() const {
    return units_;
  }

 private:
  std::vector<Entry> entries_;
  std::vector<Unit> units_;
};

/// The default for `where`, which begins errors about a parallel plan: [parallelize_module], [tensor_parallel].
inline constexpr std::string_view kParallelizeModule = "parallelize_module";

/// Whether a pattern matches a path.
bool matches(std::string_view pattern, std::string_view path);

/// The entry that matches each path of a module, and after these of a parameter, or nullptr. A pattern is matched with
/// parameters if it matches no module. Raises for a pattern that matches nothing, with the nearest modules, and for a
/// path that two patterns with different styles match.
std::vector<const ParallelPlan::Entry*> match(
    const ParallelPlan& plan,
    const std::vector<std::string>& modules,
    const std::vector<std::string>& parameters = {},
    std::string_view where = kParallelizeModule);

/// The modules that a plan fully shards, by their number, and how: the innermost first, the order in which fully_shard is called.
/// Raises as match() does.
std::vector<std::pair<size_t, const ParallelPlan::Unit*>> match_units(
    const ParallelPlan& plan,
    const std::vector<std::string>& modules,
    std::string_view where = kParallelizeModule);

} // namespace weft::nn
