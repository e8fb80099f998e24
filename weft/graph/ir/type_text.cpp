#include "weft/graph/ir/type_text.h"

#include "weft/core/dtype_text.h"
#include "weft/graph/ir/constant_text.h"

namespace weft::graph {

namespace {

std::string sizes_text(const Sizes& sizes) {
  std::string text;
  for (const auto& size : sizes) {
    text += (text.empty() ? "" : ",") + size.to_string();
  }
  return text;
}

std::string tensor_text(const TensorType& type) {
  auto text = std::string(dtype_text(type.dtype)) + "[" + sizes_text(type.sizes);
  if (type.strides != contiguous_strides(type.sizes)) {
    text += "|" + sizes_text(type.strides);
  }
  text += "]";
  if (type.device != c10::kCPU) {
    text += " " + type.device.str();
  }
  return text + (type.requires_grad ? " grad" : "");
}

/// Whether the text can be printed inside of parentheses.
bool is_balanced(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    if (depth < 0 || c == '"' || static_cast<unsigned char>(c) < ' ') {
      return false;
    }
  }
  return depth == 0 && !text.starts_with(' ') && !text.ends_with(' ');
}

std::string number_text(const NumberType& type) {
  const std::string kind = type.kind == NumberKind::Int ? "int" : type.kind == NumberKind::Float ? "float" : "bool";
  if (type.expression.empty()) {
    return kind;
  }
  return kind + "(" + (is_balanced(type.expression) ? type.expression : quoted_text(type.expression)) + ")";
}

/// The length of the text before the first of `ends` outside of parentheses.
size_t length_before(std::string_view text, std::string_view ends) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && ends.find(text[i]) != std::string_view::npos) {
      return i;
    }
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
  }
  return text.size();
}

Sizes parse_sizes(TextCursor& cursor) {
  Sizes sizes;
  if (length_before(cursor.rest(), "|]") == 0) {
    return sizes;
  }
  do {
    const auto rest = cursor.rest();
    const auto length = length_before(rest, ",|]");
    try {
      sizes.push_back(Size::parse(rest.substr(0, length)));
    } catch (const c10::Error&) {
      cursor.fail("a size"); // reports the position in the text of the program
    }
    cursor.skip(length);
  } while (cursor.accept(","));
  return sizes;
}

TensorType parse_tensor(TextCursor& cursor, c10::ScalarType dtype) {
  cursor.expect("[");
  auto type = contiguous_type(dtype, parse_sizes(cursor));
  if (cursor.accept("|")) {
    type.strides = parse_sizes(cursor);
  }
  cursor.expect("]");
  for (auto word = cursor.word_ahead(":"); !word.empty(); word = cursor.word_ahead(":")) {
    if (word == "grad") {
      type.requires_grad = true;
    } else {
      try {
        type.device = c10::Device(std::string(word));
      } catch (const c10::Error&) {
        cursor.fail("a device or grad");
      }
    }
    cursor.skip(word.size());
  }
  return type;
}

} // namespace

std::string to_string(const Type& type) {
  const auto* tensor = std::get_if<TensorType>(&type);
  return tensor != nullptr ? tensor_text(*tensor) : number_text(std::get<NumberType>(type));
}

Type parse_type(TextCursor& cursor) {
  const auto word = cursor.word_ahead();
  const bool is_tensor = cursor.rest().substr(word.size()).starts_with('[');
  if (!is_tensor && (word == "int" || word == "float" || word == "bool")) {
    cursor.skip(word.size());
    NumberType type{word == "int" ? NumberKind::Int : word == "float" ? NumberKind::Float : NumberKind::Bool, {}};
    if (cursor.accept("(")) {
      const auto rest = cursor.rest();
      const auto length = rest.starts_with('"') ? 0 : length_before(rest, ")");
      type.expression = length == 0 ? parse_quoted(cursor) : std::string(rest.substr(0, length));
      cursor.skip(length);
      cursor.expect(")");
    }
    return type;
  }
  std::optional<c10::ScalarType> dtype;
  try {
    dtype = parse_dtype(word);
  } catch (const c10::Error&) {
    cursor.fail("a dtype, int, float or bool");
  }
  cursor.skip(word.size());
  return parse_tensor(cursor, *dtype);
}

} // namespace weft::graph
