#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace weft::graph {

/// A parsed record of a file. Raises for text that is not JSON, or that nests deeper than any program does.
struct JsonRecord {
  JsonRecord(std::string file, std::string name, std::string_view text);

  std::string file;
  std::string name; // "models/model.json"
  nlohmann::json root;
};

/// A value inside of a record. A value that is missing or of another type raises an error with its path: "model.pt2:
/// models/model.json: graph_module.graph.nodes[12].inputs[1]". Refers to the record, which must outlive it.
class JsonField {
 public:
  JsonField(const JsonRecord& record) : JsonField(&record, &record.root) {}

  /// The value of a key of an object; raises if there is no such key.
  JsonField operator[](std::string_view key) const;
  /// The value of a key of an object; none if the key is absent or its value is null.
  std::optional<JsonField> find(std::string_view key) const;
  /// The element of a list.
  JsonField operator[](size_t index) const;
  /// Raises if this is not a list.
  size_t size() const;
  /// Raises if this is not an object.
  const nlohmann::json::object_t& object() const;
  JsonField value_of(const nlohmann::json& value) const {
    return {record_, &value};
  }

  const std::string& text() const;
  int64_t integer() const;
  /// Also accepts an integer, and the words that torch writes for infinities and NaN.
  double real() const;
  bool truth() const;

  /// An object with one key, which states the type of its value: {"as_int": 2}.
  struct Tagged;
  Tagged tagged() const;

  const nlohmann::json& json() const {
    return *value_;
  }
  /// The path of this value.
  std::string place() const;
  template <class... Words>
  void check(bool condition, const Words&... words) const {
    if (!condition) {
      fail(c10::str(words...));
    }
  }
  /// Raises "[read_pt2] <place>: <words>."
  [[noreturn]] void fail(const std::string& words) const;
  [[noreturn]] void fail_not_implemented(const std::string& words) const;
  /// Raises "... <required> is required, but got <value>."
  [[noreturn]] void fail_required(std::string_view required) const;

 private:
  JsonField(const JsonRecord* record, const nlohmann::json* value) : record_(record), value_(value) {}

  const JsonRecord* record_;
  const nlohmann::json* value_;
};

struct JsonField::Tagged {
  std::string_view tag;
  JsonField value;
};

} // namespace weft::graph
