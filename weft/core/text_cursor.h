#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Walks over one text of the notation; every mismatch raises an error that shows the text and the place.
///
///   TextCursor cursor("DeviceMesh::parse", "mesh(dp=2)");
///   cursor.expect("mesh(");
///   auto name = cursor.word();       // "dp"
class TextCursor {
 public:
  TextCursor(std::string_view where, std::string_view text) : where_(where), text_(text) {}

  /// Skips spaces, then `token` if it is next.
  bool accept(std::string_view token);
  void expect(std::string_view token);

  /// Letters, digits and underscores, at least one.
  std::string_view word();
  int64_t integer();
  /// Integers between commas, possibly none.
  std::vector<int64_t> integers();

  /// What is still ahead, without the spaces before it, for what the notation does not know; and past it.
  std::string_view rest();
  /// The letters, digits, underscores and some more characters that are ahead, possibly none; it stays before them.
  std::string_view word_ahead(std::string_view more = {});
  /// As accept, for a word that is not the beginning of a longer one.
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
