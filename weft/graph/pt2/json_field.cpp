#include "weft/graph/pt2/json_field.h"

#include "weft/core/json_depth.h"

#include <limits>

namespace weft::graph {

using nlohmann::json;

namespace {

/// The path from `from` down to `to`, which is identified by its address.
bool find_path(const json& from, const json* to, std::string& path) {
  if (&from == to) {
    return true;
  }
  const auto before = path.size();
  if (from.is_object()) {
    for (const auto& [key, value] : from.get_ref<const json::object_t&>()) {
      path += path.empty() ? key : "." + key;
      if (find_path(value, to, path)) {
        return true;
      }
      path.resize(before);
    }
  } else if (from.is_array()) {
    size_t index = 0;
    for (const auto& value : from.get_ref<const json::array_t&>()) {
      path += "[" + std::to_string(index++) + "]";
      if (find_path(value, to, path)) {
        return true;
      }
      path.resize(before);
    }
  }
  return false;
}

std::string described(const json& value) {
  switch (value.type()) {
    case json::value_t::object:
      return value.size() == 1 ? "an object of \"" + value.begin().key().substr(0, 80) + "\""
                               : "an object of " + std::to_string(value.size()) + " keys";
    case json::value_t::array:
      return "a list of " + std::to_string(value.size());
    case json::value_t::string:
      return "\"" + value.get_ref<const std::string&>().substr(0, 80) + "\"";
    default:
      return value.dump();
  }
}

} // namespace

JsonRecord::JsonRecord(std::string file_, std::string name_, std::string_view text)
    : file(std::move(file_)), name(std::move(name_)) {
  const auto too_deep = too_deep_at(text);
  TORCH_CHECK_VALUE(
      !too_deep, "[read_pt2] ", file, ": ", name, ": at most ", kMaxJsonDepth,
      " lists and objects inside of each other are required, but at byte ", *too_deep, " of the JSON are more.");
  try {
    root = json::parse(text);
  } catch (const json::exception& error) {
    TORCH_CHECK_VALUE(false, "[read_pt2] ", file, ": ", name, ": JSON is required, but got: ", error.what(), ".");
  }
}

JsonField JsonField::operator[](std::string_view key) const {
  const auto& all = object();
  const auto found = all.find(key);
  check(found != all.end(), "the key \"", key, "\" is required, but it is not there");
  return value_of(found->second);
}

std::optional<JsonField> JsonField::find(std::string_view key) const {
  const auto& all = object();
  const auto found = all.find(key);
  if (found == all.end() || found->second.is_null()) {
    return std::nullopt;
  }
  return value_of(found->second);
}

JsonField JsonField::operator[](size_t index) const {
  check(index < size(), "a list of more than ", index, " is required, but got ", size());
  return value_of(value_->get_ref<const json::array_t&>()[index]);
}

size_t JsonField::size() const {
  if (!value_->is_array()) {
    fail_required("a list");
  }
  return value_->size();
}

const json::object_t& JsonField::object() const {
  if (!value_->is_object()) {
    fail_required("an object");
  }
  return value_->get_ref<const json::object_t&>();
}

const std::string& JsonField::text() const {
  if (!value_->is_string()) {
    fail_required("a text");
  }
  return value_->get_ref<const std::string&>();
}

int64_t JsonField::integer() const {
  const bool is_small = !value_->is_number_unsigned() ||
      value_->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!value_->is_number_integer() || !is_small) {
    fail_required("an integer of 64 bits");
  }
  return value_->get<int64_t>();
}

double JsonField::real() const {
  if (value_->is_number()) {
    return value_->get<double>();
  }
  const auto word = value_->is_string() ? std::string_view(text()) : std::string_view();
  if (word == "Infinity" || word == "-Infinity") {
    const auto infinity = std::numeric_limits<double>::infinity();
    return word[0] == '-' ? -infinity : infinity;
  }
  if (word == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  fail_required("a number");
}

bool JsonField::truth() const {
  if (!value_->is_boolean()) {
    fail_required("true or false");
  }
  return value_->get<bool>();
}

JsonField::Tagged JsonField::tagged() const {
  const auto& all = object();
  check(all.size() == 1, "an object of one key is required, but got ", described(*value_));
  return {all.begin()->first, value_of(all.begin()->second)};
}

std::string JsonField::place() const {
  std::string path;
  find_path(record_->root, value_, path);
  return record_->file + ": " + record_->name + (path.empty() ? "" : ": " + path);
}

void JsonField::fail(const std::string& words) const {
  C10_THROW_ERROR(ValueError, c10::str("[read_pt2] ", place(), ": ", words, "."));
}

void JsonField::fail_not_implemented(const std::string& words) const {
  C10_THROW_ERROR(NotImplementedError, c10::str("[read_pt2] ", place(), ": ", words, "."));
}

void JsonField::fail_required(std::string_view required) const {
  fail(c10::str(required, " is required, but got ", described(*value_)));
}

} // namespace weft::graph
