#include "weft/styles/parallel_plan.h"

#include "weft/core/json_depth.h"
#include "weft/styles/nearest.h"
#include "weft/styles/style_json.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
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

/// Takes what makes an entry a unit out of its JSON.
ParallelPlan::Unit take_unit(const std::string& where, const std::string& pattern, OrderedJson& entry) {
  ParallelPlan::Unit unit{.pattern = pattern, .mesh_dim = {}};
  const auto take_name = [&](const char* key) {
    const auto value = entry.at(key);
    entry.erase(key);
    TORCH_CHECK_VALUE(
        value.is_string() && !value.get<std::string>().empty(), "[", where,
        "] the name of a mesh dim is required for \"", key, "\", but got ", value.dump(), ".");
    return value.get<std::string>();
  };
  unit.mesh_dim = take_name("shard");
  if (entry.contains("replicate")) {
    unit.replicate_dim = take_name("replicate");
  }
  if (entry.contains("reshard_after_forward")) {
    const auto value = entry.at("reshard_after_forward");
    entry.erase("reshard_after_forward");
    TORCH_CHECK_VALUE(
        value.is_boolean(), "[", where, "] true or false is required for \"reshard_after_forward\", but got ",
        value.dump(), ".");
    unit.reshard_after_forward = value.get<bool>();
  }
  return unit;
}

OrderedJson json_of(const ParallelPlan::Unit& unit) {
  OrderedJson result = {{"shard", unit.mesh_dim}};
  if (unit.replicate_dim) {
    result["replicate"] = *unit.replicate_dim;
  }
  if (unit.reshard_after_forward) {
    result["reshard_after_forward"] = *unit.reshard_after_forward;
  }
  return result;
}

int64_t depth_of(std::string_view path) {
  return path.empty() ? 0 : static_cast<int64_t>(steps_of(path).size());
}

std::string no_match_text(std::string_view where, const std::string& pattern, const std::vector<std::string>& modules) {
  return c10::str(
      "[", where, "] every pattern of a plan must match a module, but \"", pattern,
      "\" matches none. The nearest are: ", c10::Join(", ", nearest(pattern, modules)), ".");
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
  for (const auto& [pattern, given] : object.items()) {
    const auto where = "ParallelPlan: " + name + ", entry \"" + pattern + "\"";
    auto style = given;
    const bool is_unit = given.is_object() && given.contains("shard");
    if (is_unit) {
      plan.units_.push_back(take_unit(where, pattern, style));
    }
    if (!is_unit || !style.empty()) {
      plan.entries_.push_back({pattern, style_from_json(where, style)});
    }
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
  for (const auto& unit : units_) {
    object[unit.pattern].update(json_of(unit));
  }
  return object.dump(/*indent=*/2);
}

std::string ParallelPlan::Unit::to_string() const {
  return json_of(*this).dump();
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
        match_with(modules, 0) || match_with(parameters, modules.size()), no_match_text(where, entry.pattern, modules));
  }
  return result;
}

std::vector<std::pair<size_t, const ParallelPlan::Unit*>> match_units(
    const ParallelPlan& plan,
    const std::vector<std::string>& modules,
    std::string_view where) {
  std::vector<const ParallelPlan::Unit*> matched(modules.size(), nullptr);
  for (const auto& unit : plan.units()) {
    bool found = false;
    for (size_t i = 0; i < modules.size(); ++i) {
      if (!matches(unit.pattern, modules[i])) {
        continue;
      }
      found = true;
      TORCH_CHECK_VALUE(
          matched[i] == nullptr || matched[i]->is_like(unit), "[", where, "] a module is fully sharded once, but \"",
          modules[i], "\" is matched by \"", matched[i]->pattern, "\" (", matched[i]->to_string(), ") and by \"",
          unit.pattern, "\" (", unit.to_string(), "). Make one of the patterns narrower.");
      matched[i] = &unit;
    }
    TORCH_CHECK_VALUE(found, no_match_text(where, unit.pattern, modules));
  }
  std::vector<std::pair<size_t, const ParallelPlan::Unit*>> result;
  for (size_t i = 0; i < modules.size(); ++i) {
    if (matched[i] != nullptr) {
      result.emplace_back(i, matched[i]);
    }
  }
  std::stable_sort(result.begin(), result.end(), [&](const auto& one, const auto& other) {
    return depth_of(modules[one.first]) > depth_of(modules[other.first]);
  });
  return result;
}

} // namespace weft::nn
