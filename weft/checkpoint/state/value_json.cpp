#include "weft/checkpoint/state/value_json.h"

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <limits>

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kTags = {"float", "tuple", "dict", "int", "tensor"};

bool looks_tagged(const Json& json) {
  return json.size() == 1 &&
      std::any_of(kTags.begin(), kTags.end(), [&](const char* tag) { return json.contains(tag); });
}

Json number_json(double number) {
  if (std::isfinite(number)) {
    return number;
  }
  return {{"float", std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf"}};
}

Json json_of(const c10::IValue& value, const std::string& name) {
  const auto list_of = [&](const auto& elements) {
    auto list = Json::array();
    for (const c10::IValue& element : elements) {
      list.push_back(json_of(element, name));
    }
    return list;
  };
  if (value.isNone()) {
    return nullptr;
  }
  if (value.isBool()) {
    return value.toBool();
  }
  if (value.isInt()) {
    return value.toInt();
  }
  if (value.isDouble()) {
    return number_json(value.toDouble());
  }
  if (value.isString()) {
    return value.toStringRef();
  }
  if (value.isList()) {
    return list_of(value.toListRef());
  }
  if (value.isTuple()) {
    return {{"tuple", list_of(value.toTupleRef().elements())}};
  }
  TORCH_CHECK_TYPE(
      value.isGenericDict(), "[save] '", name,
      "' must be a tensor, a number, a text, a boolean, None, or a list, tuple or dict of such values, but got ",
      value.tagKind(), ".");
  auto object = Json::object();
  auto pairs = Json::array();
  bool has_texts = true;
  for (const auto& entry : value.toGenericDict()) {
    has_texts = has_texts && entry.key().isString();
    auto of_value = json_of(entry.value(), name);
    if (entry.key().isString()) {
      object[entry.key().toStringRef()] = of_value;
    }
    pairs.push_back({json_of(entry.key(), name), std::move(of_value)});
  }
  return has_texts && !looks_tagged(object) ? object : Json{{"dict", std::move(pairs)}};
}

c10::IValue value_of(const Json& json, const std::string& name);

c10::IValue dict_of(const std::vector<std::pair<c10::IValue, c10::IValue>>& pairs) {
  c10::impl::GenericDict dict(pairs.empty() ? c10::StringType::get() : pairs[0].first.type(), c10::AnyType::get());
  for (const auto& [key, value] : pairs) {
    dict.insert(key, value);
  }
  return dict;
}

std::vector<c10::IValue> values_of(const Json& list, const std::string& name) {
  TORCH_CHECK_VALUE(list.is_array(), "[load] '", name, "' must be a list, but got ", list.dump().substr(0, 80), ".");
  std::vector<c10::IValue> values;
  for (const auto& element : list) {
    values.push_back(value_of(element, name));
  }
  return values;
}

c10::IValue tagged_value(const Json& json, const std::string& name) {
  if (json.contains("tuple")) {
    return c10::ivalue::Tuple::create(values_of(json["tuple"], name));
  }
  if (json.contains("dict")) {
    std::vector<std::pair<c10::IValue, c10::IValue>> pairs;
    for (const auto& pair : json["dict"]) {
      const auto both = values_of(pair, name);
      TORCH_CHECK_VALUE(
          both.size() == 2, "[load] '", name, "' must be pairs of keys and values, but got ", pair.dump(), ".");
      pairs.emplace_back(both[0], both[1]);
    }
    return dict_of(pairs);
  }
  TORCH_CHECK_VALUE(
      !json.contains("tensor"), "[load] '", name, "' must be a value, but it is the state of a Python object, with ",
      json.dump().substr(0, 80), ". Load its tensors by their names.");
  TORCH_CHECK_VALUE(
      json.contains("float"), "[load] '", name, "' must fit into 64 bits, but got ", json.dump(),
      ". Load it in Python.");
  const auto infinity = std::numeric_limits<double>::infinity();
  return json["float"] == "nan" ? std::numeric_limits<double>::quiet_NaN()
      : json["float"] == "inf"  ? infinity
                                : -infinity;
}

c10::IValue value_of(const Json& json, const std::string& name) {
  if (json.is_null()) {
    return {};
  }
  if (json.is_boolean()) {
    return json.get<bool>();
  }
  if (json.is_number_integer()) {
    TORCH_CHECK_VALUE(
        !json.is_number_unsigned() || json.get<uint64_t>() <= INT64_MAX, "[load] '", name,
        "' must fit into 64 bits, but got ", json.dump(), ". Load it in Python.");
    return json.get<int64_t>();
  }
  if (json.is_number()) {
    return json.get<double>();
  }
  if (json.is_string()) {
    return json.get<std::string>();
  }
  if (json.is_array()) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (auto& value : values_of(json, name)) {
      list.push_back(std::move(value));
    }
    return list;
  }
  if (looks_tagged(json)) {
    return tagged_value(json, name);
  }
  std::vector<std::pair<c10::IValue, c10::IValue>> pairs;
  for (const auto& [key, value] : json.items()) {
    pairs.emplace_back(key, value_of(value, name));
  }
  return dict_of(pairs);
}

} // namespace

std::string value_json(const c10::IValue& value, const std::string& name) {
  return json_of(value, name).dump();
}

c10::IValue parse_value(const std::string& json, const std::string& name) {
  return value_of(Json::parse(json), name);
}

} // namespace weft
