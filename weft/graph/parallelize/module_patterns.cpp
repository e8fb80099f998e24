#include "weft/graph/parallelize/module_patterns.h"

#include "weft/styles/parallel_plan.h"

namespace weft::graph {

namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

} // namespace

std::string widened(
    const std::string& path,
    const std::vector<std::string>& paths,
    const std::function<bool(const std::string&)>& same) {
  auto pattern = path;
  for (size_t begin = 0; begin < pattern.size();) {
    const auto end = std::min(pattern.find('.', begin), pattern.size());
    size_t length = end - begin;
    if (is_number(std::string_view(pattern).substr(begin, length))) {
      auto wider = pattern;
      wider.replace(begin, length, "*");
      const bool fits = std::all_of(paths.begin(), paths.end(), [&](const std::string& other) {
        return !nn::matches(wider, other) || same(other);
      });
      if (fits) {
        pattern = std::move(wider);
        length = 1;
      }
    }
    begin += length + 1;
  }
  return pattern;
}

} // namespace weft::graph
