#pragma once

#include "weft/styles/style.h"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace weft::nn {

/// A parallel plan: the styles of a model's modules, by module path with wildcards.
///
///   ParallelPlan plan = {{"layers.*.attention.w[qkv]", colwise()}, {"layers.*.attention.wo", rowwise()}};
///   ParallelPlan same = ParallelPlan::load("plan.json");
///
/// In a pattern `*` matches any text, `?` one letter, and `[abc]`, `[a-c]` and `[!abc]` one letter of a set, each
/// between two dots of a path. The empty pattern matches the model itself.
class ParallelPlan {
 public:
  struct Entry {
    std::string pattern;
    Style style;
  };

  ParallelPlan() = default;
  ParallelPlan(std::initializer_list<Entry> entries) : entries_(entries) {}
  explicit ParallelPlan(std::vector<Entry> entries) : entries_(std::move(entries)) {}

  /// Parses a JSON object of patterns and styles; style_json.h describes the styles. `name` is the name of the text in
  /// errors.
  static ParallelPlan parse(const std::string& text, const std::string& name = "plan");
  static ParallelPlan load(const std::string& path);
  std::string to_string() const;

  const std::vector<Entry>& entries() const {
    return entries_;
  }

 private:
  std::vector<Entry> entries_;
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

} // namespace weft::nn
