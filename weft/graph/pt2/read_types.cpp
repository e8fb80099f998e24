#include "weft/graph/pt2/read_types.h"

#include "weft/graph/pt2/serialized_enums.h"
#include "weft/graph/pt2/sympy_text.h"

namespace weft::graph {

namespace {

constexpr size_t kMaxText = 4096;
constexpr size_t kMaxDims = 64;

/// Older files have Python's syntax instead of sympy's.
std::optional<Size> parse_size(const std::string& text) {
  if (auto size = size_of_sympy(text)) {
    return size;
  }
  if (text.size() > kMaxText) {
    return std::nullopt;
  }
  try {
    return Size::parse(text);
  } catch (const c10::ValueError&) {
    return std::nullopt;
  }
}

/// The expression as a size, if it is one; keeps the hint of a symbol.
std::optional<Size> read_expression(const JsonField& field, std::map<std::string, Symbol>& symbols) {
  auto size = parse_size(field["expr_str"].text());
  if (!size) {
    return std::nullopt;
  }
  for (const auto& name : size->symbols()) {
    symbols.try_emplace(name);
  }
  const auto hint = field.find("hint");
  if (size->is_symbol() && hint) {
    const auto [tag, value] = hint->tagged();
    if (tag == "as_int") {
      symbols[size->name()].hint = value.integer();
    }
  }
  return size;
}

Sizes read_sizes(const JsonField& field, std::map<std::string, Symbol>& symbols) {
  Sizes sizes;
  const auto dims = field.size();
  field.check(dims <= kMaxDims, "a tensor of at most ", kMaxDims, " dims is required, but got ", dims);
  for (size_t i = 0; i < dims; ++i) {
    sizes.push_back(read_size(field[i], symbols));
  }
  return sizes;
}

} // namespace

Size read_size(const JsonField& field, std::map<std::string, Symbol>& symbols) {
  const auto [tag, value] = field.tagged();
  if (tag == "as_int") {
    return value.integer();
  }
  value.check(tag == "as_expr", "as_int or as_expr is required, but got ", tag);
  const auto size = read_expression(value, symbols);
  if (!size) {
    value.fail_not_implemented(
        "a size that is made of sums, products, divisions, powers, minima and maxima is required, but got " +
        value["expr_str"].text().substr(0, 200));
  }
  return *size;
}

c10::ScalarType read_scalar_type(const JsonField& field) {
  const auto type = scalar_type_of_serialized(field.integer());
  field.check(type.has_value(), "the number of a dtype is required, but got ", field.integer());
  return *type;
}

c10::Device read_device(const JsonField& field) {
  const auto& type = field["type"].text();
  const auto index = field.find("index");
  try {
    const c10::Device device(type);
    if (!index) {
      return device;
    }
    const auto number = index->integer();
    index->check(number >= 0 && number < 128, "the number of a device is required, but got ", number);
    return {device.type(), static_cast<c10::DeviceIndex>(number)};
  } catch (const c10::ValueError&) {
    throw; // the error about the number
  } catch (const c10::Error&) {
    field.fail("the name of a device is required, but got \"" + type.substr(0, 80) + "\"");
  }
}

TensorType read_tensor_type(const JsonField& field, std::map<std::string, Symbol>& symbols) {
  const auto layout = field["layout"].integer();
  if (layout_of_serialized(layout) != c10::Layout::Strided) {
    field["layout"].fail_not_implemented(c10::str("a strided tensor is required, but got the layout ", layout));
  }
  TensorType type;
  type.dtype = read_scalar_type(field["dtype"]);
  type.sizes = read_sizes(field["sizes"], symbols);
  type.strides = read_sizes(field["strides"], symbols);
  type.device = read_device(field["device"]);
  type.requires_grad = field["requires_grad"].truth();
  field.check(
      type.strides.size() == type.sizes.size(), "as many strides as sizes are required, but got ", type.strides.size(),
      " and ", type.sizes.size());
  for (const auto& size : type.sizes) {
    field.check(!size.is_number() || size.number() >= 0, "sizes must not be negative, but got ", size.to_string());
  }
  return type;
}

NumberType read_number_type(const JsonField& field, NumberKind kind, std::map<std::string, Symbol>& symbols) {
  const auto [tag, value] = field.tagged();
  if (tag == "as_expr") {
    // An expression that is not a size keeps the file's form.
    const auto size = read_expression(value, symbols);
    return {kind, size && kind == NumberKind::Int ? size->to_string() : value["expr_str"].text()};
  }
  if (tag == "as_int") {
    return {kind, std::to_string(value.integer())};
  }
  if (tag == "as_bool") {
    return {kind, value.truth() ? "True" : "False"};
  }
  value.check(tag == "as_float", "as_expr, as_int, as_float or as_bool is required, but got ", tag);
  value.real();
  return {kind, value.json().dump()};
}

} // namespace weft::graph
