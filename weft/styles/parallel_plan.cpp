#include "weft/styles/parallel_plan.h"

#include "weft/core/json_depth.h"
#include "weft/styles/nearest.h"
#include "weft/styles/style_json.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <fstream>
#include <set>
#include <sstream>

namespace weft::nn {

namespace {

/// Keeps the order of a plan file, so that errors and listings follow it.
using OrderedJson = nlohmann::ordered_json;

std::vector<std::string_view> steps_of(std::string_view path) {
  std::vector<std::string_view> steps;
  for (size_t begin = 0;;) {
    const auto end = path.find('.', begin);
    steps.push_back(path.substr(begin, end - begin));
    if (end == std::string_view::npos) {
      return steps;
    }
    begin = end + 1;
  }
}

/// Whether `letter` is in a set as written between brackets: "abc", "a-c" or "!abc".
bool is_one_of(std::string_view set, char letter) {
  const bool negated = !set.empty() && set[0] == '!';
  bool found = false;
  for (size_t i = negated ? 1 : 0; i < set.size(); ++i) {
    const bool is_range = i + 2 < set.size() && set[i + 1] == '-';
    found = found || (is_range ? set[i] <= letter && letter <= set[i + 2] : set[i] == letter);
    i += is_range ? 2 : 0;
  }
  return found != negated;
}

/// The length of a pattern's first element: that of "[abc]" is five.
size_t first_length(std::string_view pattern) {
  const auto close = pattern[0] == '[' ? pattern.find(']', 2) : std::string_view::npos;
  return close == std::string_view::npos ? 1 : close + 1;
}

bool first_matches(std::string_view pattern, char letter) {
  const auto length = first_length(pattern);
  return length > 1 ? is_one_of(pattern.substr(1, length - 2), letter) : pattern[0] == '?' || pattern[0] == letter;
}

/// A `*` matches as few letters as possible, and one more whenever the rest does not match. Only the last `*` is tried
/// again, so that matching takes at most the product of both lengths.
bool step_matches(std::string_view pattern, std::string_view text) {
  size_t p = 0;
  size_t t = 0;
  std::optional<std::pair<size_t, size_t>> star; // the positions after the last `*` in the pattern and in the text
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star.emplace(++p, t);
    } else if (p < pattern.size() && first_matches(pattern.substr(p), text[t])) {
      p += first_length(pattern.substr(p));
      ++t;
    } else if (star) {
      p = star->first;
      t = ++star->second;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// The JSON of a plan; raises where an object has a key twice, of which all but one would be lost.
OrderedJson parse_with_unique_keys(const std::string& text, const std::string& name) {
  std::vector<std::set<std::string>> keys; // of the objects that are open
  std::string pattern;                     // the key of the outermost object that was read last
  using Event = OrderedJson::parse_event_t;
  return OrderedJson::parse(text, [&](int /*depth*/, Event event, OrderedJson& parsed) {
    if (event == Event::object_start) {
      keys.emplace_back();
    } else if (event == Event::object_end) {
      keys.pop_back();
    } else if (event == Event::key) {
      const auto key = parsed.get<std::string>();
      TORCH_CHECK_VALUE(
          keys.back().insert(key).second, "[ParallelPlan: ", name,
          keys.size() > 1 ? ", entry \"" + pattern + "\"" : std::string(), "] every key is required once, but got \"",
          key, "\" twice. Remove one of them.");
      pattern = keys.size() == 1 ? key : pattern;
    }
    return true;
  });
}

} // namespace

ParallelPlan ParallelPlan::parse(const std::string& text, const std::string& name) {
  const auto too_deep = too_deep_at(text);
  TORCH_CHECK_VALUE(
      !too_deep, "[ParallelPlan] ", name, " must have at most ", kMaxJsonDepth,
      " lists and objects inside of each other, but has more at byte ", *too_deep, ".");
  OrderedJson object;
  try {
    object = parse_with_unique_keys(text, name);
  } catch (const nlohmann::json::exception& error) {
    TORCH_CHECK_VALUE(false, "[ParallelPlan] ", name, " must be JSON, but: ", error.what(), ".");
  }
  TORCH_CHECK_VALUE(
      object.is_object(), "[ParallelPlan] ", name, " must be an object of patterns and styles, but got ",
      object.type_name(), ".");
  ParallelPlan plan;
  for (const auto& [pattern, style] : object.items()) {
    plan.entries_.push_back({pattern, style_from_json("ParallelPlan: " + name + ", entry \"" + pattern + "\"", style)});
  }
  return plan;
}

ParallelPlan ParallelPlan::load(const std::string& path) {
  std::ifstream file(path);
  TORCH_CHECK_VALUE(file.good(), "[ParallelPlan] a plan file is required, but ", path, " cannot be read.");
  std::ostringstream text;
  text << file.rdbuf();
  return parse(text.str(), path);
}

std::string ParallelPlan::to_string() const {
  auto object = OrderedJson::object();
  for (const auto& [pattern, style] : entries_) {
    object[pattern] = to_json(style);
  }
  return object.dump(/*indent=*/2);
}

bool matches(std::string_view pattern, std::string_view path) {
  const auto pattern_steps = steps_of(pattern);
  const auto path_steps = steps_of(path);
  return std::equal(pattern_steps.begin(), pattern_steps.end(), path_steps.begin(), path_steps.end(), step_matches);
}

std::vector<const ParallelPlan::Entry*> match(
    const ParallelPlan& plan,
    const std::vector<std::string>& modules,
    const std::vector<std::string>& parameters,
    std::string_view where) {
  std::vector<const ParallelPlan::Entry*> result(modules.size() + parameters.size(), nullptr);
  for (const auto& entry : plan.entries()) {
    const auto match_with = [&](const std::vector<std::string>& paths, size_t first) {
      bool found = false;
      for (size_t i = 0; i < paths.size(); ++i) {
        if (!matches(entry.pattern, paths[i])) {
          continue;
        }
        found = true;
        auto& matched = result[first + i];
        TORCH_CHECK_VALUE(
            matched == nullptr || matched->style == entry.style, "[", where,
            "] one style per module is required, but \"", paths[i], "\" is matched by \"", matched->pattern, "\" (",
            matched->style.to_string(), ") and by \"", entry.pattern, "\" (", entry.style.to_string(),
            "). Make one of the patterns narrower.");
        matched = &entry;
      }
      return found;
    };
    TORCH_CHECK_VALUE(
        match_with(modules, 0) || match_with(parameters, modules.size()), "[", where,
        "] every pattern of a plan must match a module, but \"", entry.pattern,
        "\" matches none. The nearest are: ", c10::Join(", ", nearest(entry.pattern, modules)), ".");
  }
  return result;
}

} // namespace weft::nn
