#pragma once

#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft {

/// A JSON object that states what it is and the checksum of its own text: {"format": ..., "version": ..., ..., "checksum": ...}.
class CheckedJson {
 public:
  using Json = nlohmann::ordered_json;

  /// What all texts of a kind have in common.
  struct Kind {
    const char* where;  // begins the errors
    const char* writer; // is not what <writer> writes
    const char* format;
    int64_t version;
    uint32_t (*checksum)(std::string_view text);
  };

  /// Parses a text, which errors call `name`. Raises for what is no JSON, another format or another version.
  CheckedJson(const Kind& kind, std::string_view text, std::string name);

  const Json& root() const {
    return root_;
  }
  [[noreturn]] void fail(const std::string& what) const;
  /// Fails with the texts, one after the other, unless the condition holds.
  template <class... Texts>
  void check(bool condition, const Texts&... what) const {
    if (!condition) {
      fail(c10::str(what...));
    }
  }
  /// What read() understands of the text. `written` gives the content that a writer would write of that, as JSON or as
  /// the text of it without spaces: the text must state its checksum. This is checked last, because the errors of read() are more specific; it finds changes that they cannot
  /// find, such as another layout.
  template <class Read, class Written>
  std::invoke_result_t<const Read&> understood(const Read& read, const Written& written) const {
    try {
      auto value = read();
      check_checksum(written(value));
      return value;
    } catch (const nlohmann::json::exception& error) {
      fail(error.what());
    }
  }

  /// An object of a kind, to which the content is added; then its checksum.
  static Json begin(const Kind& kind);
  static void add_checksum(const Kind& kind, Json& content);
  static void add_checksum(const Kind& kind, std::string& content);

 private:
  void check_checksum(const Json& content) const {
    check_checksum(content.dump());
  }
  void check_checksum(const std::string& content) const;

  const Kind& kind_;
  std::string name_;
  Json root_;
};

} // namespace weft
