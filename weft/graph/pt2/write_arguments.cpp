#include "weft/graph/pt2/write_arguments.h"

#include "weft/graph/pt2/serialized_enums.h"

#include <ATen/core/jit_type.h>

#include <cmath>

namespace weft::graph {

using c10::IValue;
using c10::TypeKind;
using nlohmann::json;

namespace {

constexpr int kPositional = 1;
constexpr int kKeyword = 2;

json real(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "Infinity" : "-Infinity";
  }
  return value;
}

const char* number_tag(const Value* value) {
  switch (std::get<NumberType>(value->type).kind) {
    case NumberKind::Int:
      return "as_sym_int";
    case NumberKind::Float:
      return "as_sym_float";
    case NumberKind::Bool:
      return "as_sym_bool";
  }
  TORCH_INTERNAL_ASSERT(false);
}

/// Writes the arguments of one node.
class ArgumentWriter {
 public:
  ArgumentWriter(const Node& node, const WrittenNames& names) : node_(node), names_(names) {}

  json write(const Argument& argument, const c10::TypePtr& declared) const {
    const auto type = declared->kind() == TypeKind::OptionalType
        ? declared->castRaw<c10::OptionalType>()->getElementType()
        : declared;
    switch (argument.kind()) {
      case Argument::Kind::Operand:
        return write_value(node_.operand(argument.operand()), names_);
      case Argument::Kind::List:
        return list(argument.elements(), type);
      default:
        return constant(argument.constant(), type);
    }
  }

 private:
  json list(const std::vector<Argument>& elements, const c10::TypePtr& type) const {
    const auto first = std::find_if(elements.begin(), elements.end(), [](const auto& a) { return a.is_operand(); });
    if (first == elements.end()) {
      std::vector<IValue> values;
      for (const auto& element : elements) {
        values.push_back(element.constant());
      }
      return constant_list(values, type);
    }
    const auto* value = node_.operand(first->operand());
    return value->is_tensor() ? tensors(elements) : numbers(elements, value);
  }

  json tensors(const std::vector<Argument>& elements) const {
    const bool has_none =
        std::any_of(elements.begin(), elements.end(), [](const auto& element) { return !element.is_operand(); });
    json values = json::array();
    for (const auto& element : elements) {
      if (!has_none) {
        values.push_back({{"name", names_.of(node_.operand(element.operand()))}});
      } else if (element.is_operand()) {
        values.push_back(write_value(node_.operand(element.operand()), names_));
      } else {
        check(element.constant().isNone(), "a tensor among others must be a value of the program");
        values.push_back({{"as_none", true}});
      }
    }
    return {{has_none ? "as_optional_tensors" : "as_tensors", std::move(values)}};
  }

  json numbers(const std::vector<Argument>& elements, const Value* first) const {
    json values = json::array();
    for (const auto& element : elements) {
      if (element.is_operand()) {
        values.push_back({{"as_name", names_.of(node_.operand(element.operand()))}});
      } else {
        values.push_back(write_constant(element.constant()));
      }
    }
    return {{std::string(number_tag(first)) + "s", std::move(values)}};
  }

  json constant(const IValue& value, const c10::TypePtr& type) const {
    if (value.isTensor()) {
      const auto& tensor = value.toTensor();
      if (!tensor.defined()) {
        return write_constant(IValue()); // an undefined tensor is an absent optional tensor in C++
      }
      check(
          tensor.unsafeGetTensorImpl()->is_wrapped_number(),
          "a tensor must be a value of the program, but it is a constant: make it an input of the kind Constant");
      return write_constant(tensor.item());
    }
    if (value.isInt()) {
      return integer(value.toInt(), type);
    }
    if (value.isList()) {
      return constant_list(value.toListRef(), type);
    }
    if (value.isDevice()) {
      const auto device = value.toDevice();
      const json index = device.has_index() ? json(static_cast<int>(device.index())) : json(nullptr);
      return {{"as_device", {{"type", c10::DeviceTypeName(device.type(), /*lower_case=*/true)}, {"index", index}}}};
    }
    return write_constant(value);
  }

  json integer(int64_t value, const c10::TypePtr& type) const {
    switch (type->kind()) {
      case TypeKind::ScalarTypeType:
        return {{"as_scalar_type", known(serialized_scalar_type(static_cast<c10::ScalarType>(value)), value, "dtype")}};
      case TypeKind::LayoutType:
        return {{"as_layout", known(serialized_layout(static_cast<c10::Layout>(value)), value, "layout")}};
      case TypeKind::MemoryFormatType:
        return {
            {"as_memory_format",
             known(serialized_memory_format(static_cast<c10::MemoryFormat>(value)), value, "memory format")}};
      default:
        return {{"as_int", value}};
    }
  }

  json constant_list(c10::ArrayRef<IValue> elements, const c10::TypePtr& type) const {
    const auto* list_type = type->castRaw<c10::ListType>();
    check(list_type != nullptr, "no list is required, but got one");
    auto element_type = list_type->getElementType();
    if (element_type->kind() == TypeKind::OptionalType) {
      element_type = element_type->castRaw<c10::OptionalType>()->getElementType();
    }
    json values = json::array();
    const bool has_none = std::any_of(elements.begin(), elements.end(), [](const auto& each) { return each.isNone(); });
    // If all elements are None, the format does not state their type.
    if (element_type->kind() == TypeKind::TensorType || has_none) {
      const bool is_of_tensors = element_type->kind() == TypeKind::TensorType;
      for (const auto& element : elements) {
        check(
            element.isNone(),
            is_of_tensors ? "tensors of a list must be values of the program"
                          : "the format has no list in which some are None and others are not");
        values.push_back({{"as_none", true}});
      }
      return {{elements.empty() ? "as_tensors" : "as_optional_tensors", std::move(values)}};
    }
    std::string tag = list_tag(element_type);
    for (const auto& element : elements) {
      const auto one = write_constant(element);
      const auto own = one.begin().key() + "s";
      check(values.empty() || own == tag, "a list of numbers of one type is required, but got several");
      tag = own;
      values.push_back(one.begin().value());
    }
    return {{tag, std::move(values)}};
  }

  static const char* list_tag(const c10::TypePtr& element) {
    switch (element->kind()) {
      case TypeKind::FloatType:
      case TypeKind::SymFloatType:
        return "as_floats";
      case TypeKind::BoolType:
      case TypeKind::SymBoolType:
        return "as_bools";
      case TypeKind::StringType:
        return "as_strings";
      default:
        return "as_ints";
    }
  }

  int64_t known(const std::optional<int64_t>& number, int64_t value, const char* what) const {
    check(number.has_value(), c10::str("the format has no number for the ", what, " ", value));
    return *number;
  }

  void check(bool condition, const std::string& words) const {
    TORCH_CHECK_VALUE(condition, "[write_pt2] ", target_name(node_), ": ", words, ".");
  }

  const Node& node_;
  const WrittenNames& names_;
};

} // namespace

json write_value(const Value* value, const WrittenNames& names) {
  if (value->is_tensor()) {
    return {{"as_tensor", {{"name", names.of(value)}}}};
  }
  return {{number_tag(value), {{"as_name", names.of(value)}}}};
}

json write_constant(const IValue& constant) {
  if (constant.isNone()) {
    return {{"as_none", true}};
  }
  if (constant.isBool()) {
    return {{"as_bool", constant.toBool()}};
  }
  if (constant.isInt()) {
    return {{"as_int", constant.toInt()}};
  }
  if (constant.isDouble()) {
    return {{"as_float", real(constant.toDouble())}};
  }
  if (constant.isComplexDouble()) {
    const auto value = constant.toComplexDouble();
    return {{"as_complex", {{"real", real(value.real())}, {"imag", real(value.imag())}}}};
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      constant.isString(), "[write_pt2] a constant of the type ", constant.tagKind(), " cannot be written.");
  return {{"as_string", constant.toStringRef()}};
}

json write_arguments(const Node& node, const WrittenNames& names) {
  const ArgumentWriter writer(node, names);
  json inputs = json::array();
  if (node.op() == nullptr) {
    for (size_t i = 0; i < node.arguments().size(); ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      inputs.push_back(
          {{"name", name}, {"arg", writer.write(node.arguments()[i], c10::NumberType::get())}, {"kind", kPositional}});
    }
    return inputs;
  }
  bool has_gap = false;
  for (size_t i = 0; i < node.arguments().size(); ++i) {
    const auto& argument = node.op()->schema().arguments()[i];
    if (node.arguments()[i].is_absent()) {
      has_gap = true;
      continue;
    }
    inputs.push_back(
        {{"name", argument.name()},
         {"arg", writer.write(node.arguments()[i], argument.real_type())},
         {"kind", has_gap || argument.kwarg_only() ? kKeyword : kPositional}});
  }
  return inputs;
}

} // namespace weft::graph
