#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace weft::graph {

/// A record of a file, parsed. Raises for text that is no JSON, or that nests deeper than any program.
struct JsonRecord {
  JsonRecord(std::string file, std::string name, std::string_view text);

  std::string file;
  std::string name; // "models/model.json"
  nlohmann::json root;
};

/// A value inside a record. What is not there, or not of the type that is asked for, raises with the place where it is:
/// "model.pt2: models/model.json: graph_module.graph.nodes[12].inputs[1]". Refers to the record, which must outlive it.
class JsonField {
 public:
  JsonField(const JsonRecord& record) : JsonField(&record, &record.root) {}

  /// Of an object; raises where it has no such key.
  JsonField operator[](std::string_view key) const;
  /// Of an object; none where the key is absent or its value is null.
  std::optional<JsonField> find(std::string_view key) const;
  /// Of a list.
  JsonField operator[](size_t index) const;
  /// Raises where this is no list.
  size_t size() const;
  /// Raises where this is no object.
  const nlohmann::json::object_t& object() const;
  JsonField value_of(const nlohmann::json& value) const {
    return {record_, &value};
  }

  const std::string& text() const;
  int64_t integer() const;
  /// Also of an integer, and of the words that torch writes for infinities and NaN.
  double real() const;
  bool truth() const;

  /// An object of one key that says what the value is: {"as_int": 2}.
  struct Tagged;
  Tagged tagged() const;

  const nlohmann::json& json() const {
    return *value_;
  }
  /// Where this is.
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
