#include "weft/core/text_cursor.h"

#include <c10/util/Exception.h>

#include <cctype>
#include <charconv>

namespace weft {

namespace {

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

} // namespace

void TextCursor::skip_spaces() {
  while (position_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[position_])) != 0) {
    ++position_;
  }
}

bool TextCursor::accept(std::string_view token) {
  skip_spaces();
  if (text_.substr(position_, token.size()) != token) {
    return false;
  }
  position_ += token.size();
  return true;
}

void TextCursor::expect(std::string_view token) {
  if (!accept(token)) {
    fail("'" + std::string(token) + "'");
  }
}

std::string_view TextCursor::word() {
  skip_spaces();
  const size_t begin = position_;
  while (position_ < text_.size() && is_word_character(text_[position_])) {
    ++position_;
  }
  if (position_ == begin) {
    fail("a word of letters, digits and underscores");
  }
  return text_.substr(begin, position_ - begin);
}

int64_t TextCursor::integer() {
  skip_spaces();
  int64_t value = 0;
  const char* begin = text_.data() + position_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error != std::errc()) {
    fail("an integer");
  }
  position_ += end - begin;
  return value;
}

std::vector<int64_t> TextCursor::integers() {
  std::vector<int64_t> values;
  skip_spaces();
  const bool any = position_ < text_.size() &&
      (std::isdigit(static_cast<unsigned char>(text_[position_])) != 0 || text_[position_] == '-');
  if (!any) {
    return values;
  }
  do {
    values.push_back(integer());
  } while (accept(","));
  return values;
}

std::string_view TextCursor::rest() {
  skip_spaces();
  return text_.substr(position_);
}

std::string_view TextCursor::word_ahead(std::string_view more) {
  const auto ahead = rest();
  size_t length = 0;
  while (length < ahead.size() &&
         (is_word_character(ahead[length]) || more.find(ahead[length]) != std::string_view::npos)) {
    ++length;
  }
  return ahead.substr(0, length);
}

bool TextCursor::accept_word(std::string_view word) {
  return word_ahead() == word && accept(word);
}

bool TextCursor::at_end() {
  skip_spaces();
  return position_ == text_.size();
}

void TextCursor::expect_end() {
  if (!at_end()) {
    fail("the end of the text");
  }
}

void TextCursor::fail(std::string_view expected) const {
  TORCH_CHECK_VALUE(
      false, "[", where_, "] expected ", expected, " at column ", position_ + 1, ", but got '", text_,
      "'. See docs/notation.md for the notation.");
}

} // namespace weft
