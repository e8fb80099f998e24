#include "weft/styles/style_json.h"

#include "weft/styles/transformers_styles.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <functional>
#include <limits>
#include <set>

namespace weft::nn {

namespace {

using nlohmann::json;

/// The options of one style, read by name; an option that no call has read is an error.
class Options {
 public:
  Options(std::string where, const json& object) : where_(std::move(where)), object_(object) {}

  template <class T>
  T get(const char* name, T otherwise) {
    const auto* value = find(name);
    return value == nullptr ? otherwise : as<T>(name, *value);
  }
  template <class T>
  std::optional<T> get(const char* name) {
    const auto* value = find(name);
    return value == nullptr ? std::nullopt : std::optional<T>(as<T>(name, *value));
  }
  std::optional<Placement> placement(const char* name) {
    const auto text = get<std::string>(name);
    return text ? std::optional<Placement>(Placement::parse(*text)) : std::nullopt;
  }
  Parts parts() {
    const auto* value = find("parts");
    if (value == nullptr || !value->is_array()) {
      return get<int64_t>("parts", 1);
    }
    std::vector<int64_t> sizes;
    for (const auto& size : *value) {
      sizes.push_back(as<int64_t>("parts", size));
    }
    return sizes;
  }
  std::vector<Crossing> crossings(const char* name) {
    std::vector<Crossing> result;
    for (const auto& text : get<json::array_t>(name, {})) {
      result.push_back(text.is_null() ? Crossing() : Crossing::parse(as<std::string>(name, text)));
    }
    return result;
  }
  std::map<std::string, Crossing> named_crossings(const char* name) {
    std::map<std::string, Crossing> result;
    for (const auto& [keyword, text] : get<json::object_t>(name, {})) {
      result.emplace(keyword, Crossing::parse(as<std::string>(name, text)));
    }
    return result;
  }

  void expect_all_read() const {
    for (const auto& [name, value] : object_.items()) {
      TORCH_CHECK_VALUE(
          read_.contains(name), "[", where_, "] an option of this style is required, one of ", c10::Join(", ", read_),
          ", but got ", name, ".");
    }
  }

 private:
  const json* find(const char* name) {
    read_.insert(name);
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  template <class T>
  T as(const char* name, const json& value) const {
    if constexpr (std::is_same_v<T, int64_t>) {
      const bool is_large = value.is_number_unsigned() && value.get<uint64_t>() > std::numeric_limits<int64_t>::max();
      const bool fits = value.is_string() || (value.is_number_integer() && !is_large);
      TORCH_CHECK_VALUE(
          fits, "[", where_, "] option ", name, " must be an integer of 64 bits, but got ", value.dump(), ".");
    }
    try {
      return value.get<T>();
    } catch (const json::exception&) {
      TORCH_CHECK_VALUE(false, "[", where_, "] option ", name, " has a value of the wrong type: ", value.dump(), ".");
    }
  }

  std::string where_;
  const json& object_;
  std::set<std::string> read_;
};

ShardedStyleOptions sharded_options(Options& options) {
  return {
      .input = options.placement("input"),
      .output = options.placement("output"),
      .local_output = options.get("local_output", false),
      .heads = options.get<int64_t>("heads"),
      .parts = options.parts()};
}

void read_inputs(Style& style, Options& options) {
  style.inputs = options.crossings("inputs");
  style.keyword_inputs = options.named_crossings("keywords");
  style.local_inputs = options.get("local_input", false);
}

void read_outputs(Style& style, Options& options) {
  style.outputs = options.crossings("outputs");
  style.local_outputs = options.get("local_output", false);
}

using Reader = std::function<Style(Options&)>;

const std::map<std::string, Reader, std::less<>>& readers() {
  static const std::map<std::string, Reader, std::less<>> table = {
      {"colwise", [](Options& options) { return colwise(sharded_options(options)); }},
      {"rowwise", [](Options& options) { return rowwise(sharded_options(options)); }},
      {"shard", [](Options& options) { return shard_parameter(options.get<int64_t>("dim", 0), options.parts()); }},
      {"sequence",
       [](Options& options) { return sequence(options.get<int64_t>("dim", 1), options.get("local_output", false)); }},
      {"input",
       [](Options& options) {
         Style style{.kind = StyleKind::Input};
         read_inputs(style, options);
         return style;
       }},
      {"output",
       [](Options& options) {
         Style style{.kind = StyleKind::Output};
         read_outputs(style, options);
         return style;
       }},
      {"input_output",
       [](Options& options) {
         Style style{.kind = StyleKind::InputOutput};
         read_inputs(style, options);
         read_outputs(style, options);
         return style;
       }},
      {"replicate", [](Options&) { return replicate(); }},
  };
  return table;
}

std::string known_styles() {
  std::vector<std::string> names;
  for (const auto& [name, reader] : readers()) {
    names.push_back(name);
  }
  return c10::Join(", ", names);
}

json crossings_json(const std::vector<Crossing>& crossings) {
  auto result = json::array();
  for (const auto& crossing : crossings) {
    const auto text = crossing.to_string();
    result.push_back(text.empty() ? json() : json(text));
  }
  return result;
}

void write_parts(json& result, const Style& style) {
  if (!style.parts.is_one()) {
    result["parts"] = parts_json(style.parts);
  }
}

void write_sharded(json& result, const Style& style) {
  if (const auto& from = style.inputs[0].from) {
    result["input"] = from->to_string();
  }
  result["output"] = style.outputs[0].to->to_string();
  if (style.heads) {
    result["heads"] = *style.heads;
  }
  write_parts(result, style);
}

void write_boundaries(json& result, const Style& style) {
  if (!style.inputs.empty()) {
    result["inputs"] = crossings_json(style.inputs);
  }
  for (const auto& [keyword, crossing] : style.keyword_inputs) {
    result["keywords"][keyword] = crossing.to_string();
  }
  if (style.local_inputs) {
    result["local_input"] = true;
  }
  if (!style.outputs.empty()) {
    result["outputs"] = crossings_json(style.outputs);
  }
}

} // namespace

Style style_from_json(const std::string& where, const json& given) {
  auto object = given.is_string() ? transformers_style(given.get<std::string>()) : given;
  if (object.is_null() && given.is_string()) {
    object = json{{"style", given}};
  }
  TORCH_CHECK_VALUE(
      object.is_object(), "[", where, "] the name of a style or an object with one is required, but got ", given.dump(),
      ".");
  Options options(where, object);
  const auto name = options.get<std::string>("style", "");
  const auto reader = readers().find(name);
  TORCH_CHECK_VALUE(
      reader != readers().end(), "[", where, "] \"style\" must be one of ", known_styles(), ", but got ",
      object.value("style", json()).dump(), ".");
  try {
    const auto style = reader->second(options);
    options.expect_all_read();
    return style;
  } catch (const c10::ValueError& error) {
    // Of a placement or a number that no style has: it does not say where it stands.
    const std::string_view text = error.what_without_backtrace();
    TORCH_CHECK_VALUE(text.find(where) != std::string_view::npos, "[", where, "] ", text);
    throw;
  }
}

json parts_json(const Parts& parts) {
  return parts.sizes().empty() ? json(parts.count()) : json(parts.sizes());
}

json to_json(const Style& style) {
  json result;
  result["style"] = to_string(style.kind);
  switch (style.kind) {
    case StyleKind::Colwise:
    case StyleKind::Rowwise:
      write_sharded(result, style);
      break;
    case StyleKind::Shard:
      result["dim"] = style.dim;
      write_parts(result, style);
      break;
    case StyleKind::Sequence:
      result["dim"] = style.inputs[0].to->dim();
      break;
    default:
      write_boundaries(result, style);
  }
  if (style.local_outputs) {
    result["local_output"] = true;
  }
  return result;
}

} // namespace weft::nn
