#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Reads one text of the notation from left to right; every mismatch raises an error that shows the text and the
/// column.
///
///   TextCursor cursor("DeviceMesh::parse", "mesh(dp=2)");
///   cursor.expect("mesh(");
///   auto name = cursor.word();       // "dp"
class TextCursor {
 public:
  TextCursor(std::string_view where, std::string_view text) : where_(where), text_(text) {}

  /// Skips spaces, then `token` if the text continues with it; returns whether it did.
  bool accept(std::string_view token);
  void expect(std::string_view token);

  /// One or more letters, digits and underscores.
  std::string_view word();
  int64_t integer();
  /// Integers between commas, possibly none.
  std::vector<int64_t> integers();

  /// The text ahead, without leading spaces, for a caller that reads what this class cannot; it then calls skip().
  std::string_view rest();
  /// The letters, digits, underscores and characters of `more` ahead, possibly none; the cursor does not move.
  std::string_view word_ahead(std::string_view more = {});
  /// As accept, but not for the beginning of a longer word.
  bool accept_word(std::string_view word);
  void skip(size_t characters) {
    position_ += characters;
  }

  bool at_end();
  void expect_end();

  [[noreturn]] void fail(std::string_view expected) const;

 private:
  void skip_spaces();

  std::string_view where_;
  std::string_view text_;
  size_t position_ = 0;
};

} // namespace weft
