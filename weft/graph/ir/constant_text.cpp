#include "weft/graph/ir/constant_text.h"

#include "weft/core/dtype_text.h"

#include <ATen/ScalarOps.h>
#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>

#include <array>
#include <charconv>
#include <cmath>

namespace weft::graph {

namespace {

using c10::IValue;
using c10::TypeKind;

// The names that Python uses for them.
constexpr std::array<std::pair<std::string_view, c10::Layout>, 8> kLayouts = {{
    {"strided", c10::kStrided},
    {"sparse_coo", c10::kSparse},
    {"sparse_csr", c10::kSparseCsr},
    {"sparse_csc", c10::kSparseCsc},
    {"sparse_bsr", c10::kSparseBsr},
    {"sparse_bsc", c10::kSparseBsc},
    {"mkldnn", c10::kMkldnn},
    {"jagged", c10::kJagged},
}};

constexpr std::array<std::pair<std::string_view, c10::MemoryFormat>, 4> kMemoryFormats = {{
    {"contiguous_format", c10::MemoryFormat::Contiguous},
    {"preserve_format", c10::MemoryFormat::Preserve},
    {"channels_last", c10::MemoryFormat::ChannelsLast},
    {"channels_last_3d", c10::MemoryFormat::ChannelsLast3d},
}};

template <class Table>
std::string named_number(const Table& table, int64_t number) {
  for (const auto& [name, value] : table) {
    if (static_cast<int64_t>(value) == number) {
      return std::string(name);
    }
  }
  return std::to_string(number);
}

template <class Table>
std::optional<int64_t> number_named(const Table& table, std::string_view name) {
  for (const auto& [known, value] : table) {
    if (known == name) {
      return static_cast<int64_t>(value);
    }
  }
  return std::nullopt;
}

std::string integer_text(int64_t number, const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::ScalarTypeType:
      try {
        return std::string(dtype_text(static_cast<c10::ScalarType>(number)));
      } catch (const c10::Error&) {
        return std::to_string(number); // the notation has no name for this dtype
      }
    case TypeKind::LayoutType:
      return named_number(kLayouts, number);
    case TypeKind::MemoryFormatType:
      return named_number(kMemoryFormats, number);
    default:
      return std::to_string(number);
  }
}

std::string float_text(double number) {
  if (std::isnan(number)) {
    return "nan";
  }
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number).ptr;
  const std::string text(buffer.data(), end);
  // An integer and the float of the same value are different constants.
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

bool is_stored_as(const IValue& value, const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::IntType:
      return value.isInt();
    case TypeKind::FloatType:
      return value.isDouble();
    case TypeKind::BoolType:
      return value.isBool();
    case TypeKind::StringType:
      return value.isString();
    default:
      return true;
  }
}

IValue list_of(const std::vector<IValue>& values, const c10::TypePtr& type) {
  auto stored = stored_type(type);
  for (const auto& value : values) {
    if (!is_stored_as(value, *stored)) {
      stored = values[0].type();
      break;
    }
  }
  if (stored->kind() == TypeKind::AnyType && !values.empty()) {
    stored = values[0].type();
  }
  c10::impl::GenericList list(stored);
  for (const auto& value : values) {
    list.push_back(value);
  }
  return list;
}

IValue parse_list(TextCursor& cursor, const c10::Type& type) {
  const auto element = element_type(type);
  std::vector<IValue> values;
  cursor.expect("[");
  while (!cursor.accept("]")) {
    if (!values.empty()) {
      cursor.expect(",");
    }
    values.push_back(parse_constant(cursor, element));
  }
  return list_of(values, element);
}

std::string_view token_ahead(TextCursor& cursor, bool with_colon) {
  const auto rest = cursor.rest();
  size_t length = 0;
  while (length < rest.size() &&
         (std::isalnum(static_cast<unsigned char>(rest[length])) != 0 ||
          std::string_view("_.+-").find(rest[length]) != std::string_view::npos ||
          (with_colon && rest[length] == ':'))) {
    ++length;
  }
  return rest.substr(0, length);
}

template <class Number>
std::optional<Number> number_in_token(std::string_view token) {
  Number number = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), number);
  return error == std::errc() && end == token.data() + token.size() ? std::optional(number) : std::nullopt;
}

std::optional<IValue> number_or_word(std::string_view token, const c10::Type& type) {
  if (token == "None") {
    return IValue();
  }
  if (token == "True" || token == "False") {
    return IValue(token == "True");
  }
  std::optional<int64_t> number = number_in_token<int64_t>(token);
  switch (type.kind()) {
    case TypeKind::LayoutType:
      number = number ? number : number_named(kLayouts, token);
      break;
    case TypeKind::MemoryFormatType:
      number = number ? number : number_named(kMemoryFormats, token);
      break;
    case TypeKind::ScalarTypeType:
      return number ? IValue(*number) : IValue(parse_dtype(token));
    case TypeKind::DeviceObjType:
      return IValue(c10::Device(std::string(token)));
    default:
      break;
  }
  if (number) {
    return IValue(*number);
  }
  const auto real = number_in_token<double>(token);
  return real ? std::optional<IValue>(*real) : std::nullopt;
}

/// The number that a wrapped-number tensor holds, as in `add(x, 1)`.
std::optional<IValue> wrapped_number(const IValue& value) {
  if (!value.isTensor() || !value.toTensor().defined() || value.toTensor().dim() != 0 ||
      !value.toTensor().unsafeGetTensorImpl()->is_wrapped_number()) {
    return std::nullopt;
  }
  return IValue(value.toTensor().item());
}

/// Converts a number to a tensor where the schema takes a tensor.
IValue in_place_of(const c10::Type& type, IValue value) {
  if (type.kind() != TypeKind::TensorType || value.isNone()) {
    return value;
  }
  auto tensor = c10::scalar_to_tensor(value.toScalar());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

double parse_float(TextCursor& cursor) {
  const auto token = token_ahead(cursor, false);
  const auto number = number_in_token<double>(token);
  if (!number) {
    cursor.fail("a number");
  }
  cursor.skip(token.size());
  return *number;
}

} // namespace

c10::TypePtr stored_type(const c10::TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::SymIntType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
      return c10::IntType::get();
    case TypeKind::SymFloatType:
      return c10::FloatType::get();
    case TypeKind::SymBoolType:
      return c10::BoolType::get();
    case TypeKind::OptionalType:
      return c10::OptionalType::create(stored_type(type->expectRef<c10::OptionalType>().getElementType()));
    default:
      return type;
  }
}

const c10::Type& without_none(const c10::Type& type) {
  return type.kind() == TypeKind::OptionalType ? *type.expectRef<c10::OptionalType>().getElementType() : type;
}

c10::TypePtr element_type(const c10::Type& type) {
  const auto& list = without_none(type);
  return list.kind() == TypeKind::ListType ? list.expectRef<c10::ListType>().getElementType() : c10::AnyType::get();
}

std::string quoted_text(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (c == '\n') {
      result += "\\n";
    } else if (static_cast<unsigned char>(c) < ' ') {
      result += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string parse_quoted(TextCursor& cursor) {
  const auto rest = cursor.rest();
  if (!rest.starts_with('"')) {
    cursor.fail("'\"'");
  }
  std::string result;
  size_t at = 1;
  while (at < rest.size() && rest[at] != '"') {
    if (rest[at] != '\\') {
      result += rest[at++];
      continue;
    }
    const char escape = at + 1 < rest.size() ? rest[at + 1] : '\0';
    unsigned int code = 0;
    const bool is_hex = escape == 'x' && at + 4 <= rest.size() &&
        std::from_chars(rest.data() + at + 2, rest.data() + at + 4, code, 16).ptr == rest.data() + at + 4;
    if (escape != '"' && escape != '\\' && escape != 'n' && !is_hex) {
      cursor.skip(at);
      cursor.fail("one of \\\" \\\\ \\n \\x00");
    }
    result += is_hex ? static_cast<char>(code) : escape == 'n' ? '\n' : escape;
    at += is_hex ? 4 : 2;
  }
  cursor.skip(at);
  cursor.expect("\"");
  return result;
}

std::string constant_text(const IValue& value, const c10::Type& type) {
  const auto& bare = without_none(type);
  if (value.isNone()) {
    return "None";
  }
  if (value.isBool()) {
    return value.toBool() ? "True" : "False";
  }
  if (value.isInt()) {
    return integer_text(value.toInt(), bare);
  }
  if (value.isDouble()) {
    return float_text(value.toDouble());
  }
  if (value.isComplexDouble()) {
    const auto number = value.toComplexDouble();
    return "complex(" + float_text(number.real()) + ", " + float_text(number.imag()) + ")";
  }
  if (value.isString()) {
    return quoted_text(value.toStringRef());
  }
  if (value.isDevice()) {
    return value.toDevice().str();
  }
  if (const auto number = wrapped_number(value)) {
    return constant_text(*number, *c10::NumberType::get());
  }
  if (value.isList()) {
    const auto element = element_type(type);
    std::string text = "[";
    for (const auto& each : value.toListRef()) {
      text += (text.size() == 1 ? "" : ", ") + constant_text(each, *element);
    }
    return text + "]";
  }
  return "<" + value.tagKind() + ">";
}

IValue parse_constant(TextCursor& cursor, const c10::TypePtr& type) {
  const auto& bare = without_none(*type);
  const auto rest = cursor.rest();
  if (rest.starts_with('"')) {
    return parse_quoted(cursor);
  }
  if (rest.starts_with('[')) {
    return parse_list(cursor, *type);
  }
  if (cursor.accept("complex(")) {
    const auto real = parse_float(cursor);
    cursor.expect(",");
    const auto imaginary = parse_float(cursor);
    cursor.expect(")");
    return in_place_of(bare, c10::complex<double>(real, imaginary));
  }
  const auto token = token_ahead(cursor, bare.kind() == TypeKind::DeviceObjType);
  std::optional<IValue> value;
  try {
    value = number_or_word(token, bare);
  } catch (const c10::Error&) {
    cursor.fail("a constant of type " + bare.str()); // adds the position, which the error of the dtype or device lacks
  }
  if (!value) {
    cursor.fail("a constant of type " + bare.str());
  }
  cursor.skip(token.size());
  return in_place_of(bare, std::move(*value));
}

} // namespace weft::graph
