#pragma once

#include "weft/styles/style.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace weft::nn {

/// Which modules of a model are parallel how: module paths, with wildcards, and styles.
///
///   ParallelPlan plan = {{"layers.*.attention.w[qkv]", colwise()}, {"layers.*.attention.wo", rowwise()}};
///   ParallelPlan same = ParallelPlan::load("plan.json");
///
/// In a pattern `*` stands for any text, `?` for one letter, `[abc]`, `[a-c]` and `[!abc]` for one of some, each inside
/// one part of a path between dots. The empty pattern is the model itself.
class ParallelPlan {
 public:
  struct Entry {
    std::string pattern;
    Style style;
  };

  ParallelPlan() = default;
  ParallelPlan(std::initializer_list<Entry> entries) : entries_(entries) {}
  explicit ParallelPlan(std::vector<Entry> entries) : entries_(std::move(entries)) {}

  /// Of a JSON object of patterns and styles; what a style looks like there is told in style_json.h. `name` is what errors
  /// call the text.
  static ParallelPlan parse(const std::string& text, const std::string& name = "plan");
  static ParallelPlan load(const std::string& path);
  std::string to_string() const;

  const std::vector<Entry>& entries() const {
    return entries_;
  }

 private:
  std::vector<Entry> entries_;
};

/// What errors about a plan begin with, unless it is said who goes by it: [parallelize_module], [tensor_parallel].
inline constexpr std::string_view kParallelizeModule = "parallelize_module";

/// Whether a pattern stands for a path.
bool matches(std::string_view pattern, std::string_view path);

/// For every path the entry that stands for it, if any. Raises for a pattern that no path matches, with the nearest paths,
/// and for a path of which two patterns say different things.
std::vector<const ParallelPlan::Entry*> match(
    const ParallelPlan& plan,
    const std::vector<std::string>& paths,
    std::string_view where = kParallelizeModule);

} // namespace weft::nn
