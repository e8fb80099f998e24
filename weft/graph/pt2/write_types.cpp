#include "weft/graph/pt2/write_types.h"

#include "weft/graph/pt2/serialized_enums.h"
#include "weft/graph/pt2/sympy_text.h"

namespace weft::graph {

using nlohmann::json;

namespace {

std::optional<Size> parsed(const std::string& text) {
  try {
    return text.empty() ? std::nullopt : std::optional(Size::parse(text));
  } catch (const c10::ValueError&) {
    return std::nullopt;
  }
}

std::optional<Size> apply(const std::string& function, const Size& a, const Size& b) {
  const auto name = function.substr(function.rfind('.') + 1);
  if (name == "add") {
    return a + b;
  }
  if (name == "sub") {
    return a - b;
  }
  if (name == "mul") {
    return a * b;
  }
  if (name == "floordiv") {
    return floor_divide(a, b);
  }
  if (name == "mod") {
    return remainder(a, b);
  }
  if (name == "sym_max") {
    return maximum(a, b);
  }
  if (name == "sym_min") {
    return minimum(a, b);
  }
  return std::nullopt;
}

bool is_unbacked(const std::string& symbol) {
  return symbol[0] == 'u';
}

} // namespace

TypeWriter::TypeWriter(const std::map<std::string, Symbol>& symbols) : symbols_(symbols) {
  for (const auto& [name, symbol] : symbols) {
    if (symbol.hint) {
      hints_.emplace(name, *symbol.hint);
    }
    if (is_unbacked(name)) {
      const auto digits = name.substr(1);
      const bool is_counted =
          !digits.empty() && digits.size() < 9 && digits.find_first_not_of("0123456789") == std::string::npos;
      next_unknown_ = is_counted ? std::max(next_unknown_, std::stoul(digits) + 1) : next_unknown_;
    }
  }
}

json TypeWriter::expression(const std::string& text, const Size* size) {
  json hint = nullptr;
  if (size != nullptr) {
    const auto names = size->symbols();
    used_.insert(names.begin(), names.end());
    const bool is_known =
        std::all_of(names.begin(), names.end(), [this](const std::string& name) { return hints_.count(name) != 0; });
    if (is_known) {
      hint = {{"as_int", size->evaluate(hints_)}};
    }
  }
  return {{"as_expr", {{"expr_str", text}, {"hint", hint}}}};
}

json TypeWriter::size(const Size& size) {
  if (size.is_number()) {
    return {{"as_int", size.number()}};
  }
  return expression(sympy_of_size(size), &size);
}

json TypeWriter::tensor(const TensorType& type) {
  const auto dtype = serialized_scalar_type(type.dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(
      dtype, "[write_pt2] tensors of ", type.dtype, " cannot be written: the format has no number for it.");
  json sizes = json::array();
  json strides = json::array();
  for (const auto& one : type.sizes) {
    sizes.push_back(size(one));
  }
  for (const auto& one : type.strides) {
    strides.push_back(size(one));
  }
  const json index = type.device.has_index() ? json(static_cast<int>(type.device.index())) : json(nullptr);
  return {
      {"dtype", *dtype},
      {"sizes", std::move(sizes)},
      {"requires_grad", type.requires_grad},
      {"device", {{"type", c10::DeviceTypeName(type.device.type(), /*lower_case=*/true)}, {"index", index}}},
      {"strides", std::move(strides)},
      {"storage_offset", {{"as_int", 0}}},
      {"layout", *serialized_layout(c10::Layout::Strided)}};
}

json TypeWriter::number(const NumberType& type) {
  const auto& text = type.expression;
  if (text == "True" || text == "False") {
    return {{"as_bool", text == "True"}};
  }
  if (type.kind == NumberKind::Float) {
    const auto value = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_number()) {
      return {{"as_float", value}};
    }
  }
  const auto known = parsed(text);
  if (known && type.kind == NumberKind::Float) {
    return expression("ToFloat(" + sympy_of_size(*known) + ")", nullptr);
  }
  if (known && known->is_number()) {
    return {{"as_int", known->number()}};
  }
  // An expression that is not a size has kept the file's form.
  return known ? expression(sympy_of_size(*known), &*known) : expression(text, nullptr);
}

json TypeWriter::number_of(const Value* value) {
  const auto& type = std::get<NumberType>(value->type);
  return number({type.kind, expression_of(value)});
}

std::string TypeWriter::expression_of(const Value* value) {
  const auto& type = std::get<NumberType>(value->type);
  if (!type.expression.empty()) {
    return type.expression;
  }
  const auto found = found_.find(value);
  if (found != found_.end()) {
    return found->second;
  }
  auto& result = found_[value];
  const auto* node = value->producer();
  if (node != nullptr && node->op() != nullptr && target_name(*node) == "aten::sym_size.int") {
    const auto& tensor = node->operand(0)->tensor();
    const auto dim = node->arguments()[1].is_constant() ? node->arguments()[1].constant().toInt() : tensor.dim();
    const auto place = dim < 0 ? dim + tensor.dim() : dim;
    if (place >= 0 && place < tensor.dim()) {
      return result = tensor.sizes[place].to_string();
    }
  }
  if (node != nullptr && node->function() != nullptr && node->arguments().size() == 2) {
    const auto operand = [&](const Argument& argument) -> std::optional<Size> {
      if (argument.is_operand()) {
        return parsed(expression_of(node->operand(argument.operand())));
      }
      return argument.constant().isInt() ? std::optional<Size>(argument.constant().toInt()) : std::nullopt;
    };
    const auto a = operand(node->arguments()[0]);
    const auto b = operand(node->arguments()[1]);
    const auto size = a && b ? apply(node->function()->name, *a, *b) : std::nullopt;
    if (size) {
      return found_[value] = size->to_string();
    }
  }
  // A symbol that is known only when the program runs.
  const auto name = "u" + std::to_string(next_unknown_++);
  switch (type.kind) {
    case NumberKind::Int:
      return found_[value] = name;
    case NumberKind::Float:
      return found_[value] = "Symbol('zf" + name + "', real=True)";
    case NumberKind::Bool:
      return found_[value] = "Equality(Symbol('" + name + "', integer=True), Integer(1))";
  }
  TORCH_INTERNAL_ASSERT(false);
}

json TypeWriter::ranges() const {
  json result = json::object();
  for (const auto& name : used_) {
    const auto found = symbols_.find(name);
    if (found == symbols_.end()) {
      continue;
    }
    const auto bound = [](const std::optional<int64_t>& value) { return value ? json(*value) : json(nullptr); };
    result[name] = {{"min_val", bound(found->second.min)}, {"max_val", bound(found->second.max)}};
  }
  return result;
}

} // namespace weft::graph
