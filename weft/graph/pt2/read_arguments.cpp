#include "weft/graph/pt2/read_arguments.h"

#include "weft/graph/ir/constant_text.h"
#include "weft/graph/pt2/read_types.h"
#include "weft/graph/pt2/serialized_enums.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>

namespace weft::graph {

namespace {

using c10::IValue;
using c10::TypeKind;

/// The value that an argument names: {"name": "x"} for a tensor, {"as_name": "s"} for a number.
std::optional<JsonField> named(std::string_view tag, const JsonField& value) {
  if (tag == "as_tensor") {
    return value["name"];
  }
  if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") {
    return value.find("as_name");
  }
  return std::nullopt;
}

std::optional<IValue> plain_number(std::string_view tag, const JsonField& value) {
  if (tag == "as_int") {
    return value.integer();
  }
  if (tag == "as_float") {
    return value.real();
  }
  return tag == "as_bool" ? std::optional<IValue>(value.truth()) : std::nullopt;
}

bool is_list_tag(std::string_view tag) {
  for (const auto* name :
       {"as_tensors", "as_optional_tensors", "as_ints", "as_floats", "as_bools", "as_strings", "as_sym_ints",
        "as_sym_floats", "as_sym_bools"}) {
    if (tag == name) {
      return true;
    }
  }
  return false;
}

IValue wrapped_number(const c10::Scalar& number) {
  auto tensor = at::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

const c10::TypePtr& without_none(const c10::TypePtr& type) {
  return type->kind() == TypeKind::OptionalType ? type->expectRef<c10::OptionalType>().getElementType() : type;
}

/// Reads the arguments of one call by the types of its schema.
class ArgumentReader {
 public:
  ArgumentReader(const NamedValues& values, std::vector<Value*>& operands) : values_(values), operands_(operands) {}

  Argument read(const JsonField& field, const c10::TypePtr& declared, std::optional<int32_t> list_size) {
    const auto [tag, value] = field.tagged();
    const bool is_optional = declared->kind() == TypeKind::OptionalType;
    const auto type = is_optional ? declared->castRaw<c10::OptionalType>()->getElementType() : declared;
    if (tag == "as_none") {
      field.check(is_optional, "an argument of type ", declared->repr_str(), " is required, but got None");
      return IValue();
    }
    if (tag == "as_optional_tensor") {
      return read(value, declared, list_size);
    }
    if (type->kind() != TypeKind::ListType) {
      return single(field, type);
    }
    const auto element = type->castRaw<c10::ListType>()->getElementType();
    if (is_list_tag(tag)) {
      return list(tag, value, element);
    }
    // A single number for a list of fixed length is repeated.
    const auto one = single(field, element);
    const auto count = static_cast<size_t>(list_size.value_or(1));
    return gather(std::vector<Argument>(count, one), element);
  }

  Argument number(const JsonField& field) {
    const auto [tag, value] = field.tagged();
    if (const auto name = named(tag, value)) {
      return use(*name);
    }
    return numeric(field);
  }

 private:
  Argument use(const JsonField& name) {
    auto* value = values_.find(name);
    operands_.push_back(value);
    return Argument::operand(operands_.size() - 1);
  }

  Argument single(const JsonField& field, const c10::TypePtr& type) {
    const auto [tag, value] = field.tagged();
    if (const auto name = named(tag, value)) {
      return use_as(*name, type);
    }
    switch (type->kind()) {
      case TypeKind::StringType:
        require(field, tag == "as_string", type);
        return IValue(value.text());
      case TypeKind::DeviceObjType:
        require(field, tag == "as_device", type);
        return IValue(read_device(value));
      case TypeKind::AnyType: // the name of a group
        return tag == "as_string" ? Argument(IValue(value.text())) : Argument(numeric(field));
      case TypeKind::OptionalType:
        return tag == "as_none" ? Argument(IValue())
                                : single(field, type->castRaw<c10::OptionalType>()->getElementType());
      default:
        return IValue(converted(field, numeric(field), type));
    }
  }

  Argument use_as(const JsonField& name, const c10::TypePtr& type) {
    auto argument = use(name);
    const bool is_tensor = operands_.back()->is_tensor();
    auto kind = type->kind();
    if (kind == TypeKind::OptionalType) {
      kind = type->castRaw<c10::OptionalType>()->getElementType()->kind();
    }
    // As in Python, a number is accepted for a tensor and becomes a tensor of no dims.
    name.check(
        !is_tensor || kind == TypeKind::TensorType, "an argument of type ", type->repr_str(),
        " is required, but got the tensor ", name.text().substr(0, 80));
    name.check(
        is_tensor || (kind != TypeKind::StringType && kind != TypeKind::DeviceObjType && kind != TypeKind::ListType),
        "an argument of type ", type->repr_str(), " is required, but got the number ", name.text().substr(0, 80));
    return argument;
  }

  Argument list(std::string_view tag, const JsonField& values, const c10::TypePtr& element) {
    std::vector<Argument> elements;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto value = values[i];
      if (tag == "as_tensors") {
        elements.push_back(use_as(value["name"], element));
      } else if (tag == "as_optional_tensors") {
        const auto [kind, tensor] = value.tagged();
        const bool is_none = kind == "as_none";
        require(value, is_none ? element->kind() == TypeKind::OptionalType : kind == "as_tensor", element);
        elements.push_back(is_none ? Argument(IValue()) : use_as(tensor["name"], element));
      } else if (tag == "as_sym_ints" || tag == "as_sym_floats" || tag == "as_sym_bools") {
        const auto [kind, number] = value.tagged();
        elements.push_back(kind == "as_name" ? use_as(number, element) : single(value, element));
      } else if (tag == "as_strings") {
        require(value, element->kind() == TypeKind::StringType, element);
        elements.emplace_back(IValue(value.text()));
      } else {
        elements.emplace_back(IValue(converted(value, plain(value), without_none(element))));
      }
    }
    return gather(std::move(elements), element);
  }

  /// A list without operands is one constant.
  static Argument gather(std::vector<Argument> elements, const c10::TypePtr& element) {
    for (const auto& argument : elements) {
      if (!argument.is_constant()) {
        return Argument::list(std::move(elements));
      }
    }
    c10::impl::GenericList list(stored_type(element));
    for (const auto& argument : elements) {
      list.push_back(argument.constant());
    }
    return IValue(std::move(list));
  }

  static void require(const JsonField& field, bool condition, const c10::TypePtr& type) {
    if (!condition) {
      field.fail_required("an argument of type " + type->repr_str());
    }
  }

  static IValue numeric(const JsonField& field) {
    const auto [tag, value] = field.tagged();
    if (tag == "as_sym_int" || tag == "as_sym_float" || tag == "as_sym_bool") {
      return numeric(value);
    }
    if (auto number = plain_number(tag, value)) {
      return std::move(*number);
    }
    if (tag == "as_complex") {
      return c10::complex<double>(value["real"].real(), value["imag"].real());
    }
    if (tag == "as_scalar_type") {
      return static_cast<int64_t>(read_scalar_type(value));
    }
    if (tag == "as_layout") {
      const auto layout = layout_of_serialized(value.integer());
      value.check(layout.has_value(), "the number of a layout is required, but got ", value.integer());
      return static_cast<int64_t>(*layout);
    }
    if (tag == "as_memory_format") {
      const auto format = memory_format_of_serialized(value.integer());
      value.check(format.has_value(), "the number of a memory format is required, but got ", value.integer());
      return static_cast<int64_t>(*format);
    }
    field.fail_not_implemented("an argument given by " + std::string(tag.substr(0, 80)) + " is not supported");
  }

  static IValue plain(const JsonField& field) {
    const auto& json = field.json();
    if (json.is_boolean()) {
      return field.truth();
    }
    return json.is_number_integer() ? IValue(field.integer()) : IValue(field.real());
  }

  /// Converts between Python's number types if no information is lost.
  static IValue converted(const JsonField& field, const IValue& number, const c10::TypePtr& type) {
    const bool is_integer = number.isInt() || number.isBool();
    switch (type->kind()) {
      case TypeKind::TensorType:
        return wrapped_number(number.toScalar());
      case TypeKind::NumberType:
        return number;
      case TypeKind::ComplexType:
        return number.isComplexDouble() ? number : IValue(c10::complex<double>(number.toScalar().to<double>()));
      case TypeKind::FloatType:
      case TypeKind::SymFloatType:
        require(field, is_integer || number.isDouble(), type);
        return number.toScalar().to<double>();
      case TypeKind::BoolType:
      case TypeKind::SymBoolType:
        require(field, number.isBool(), type);
        return number;
      case TypeKind::IntType:
      case TypeKind::SymIntType:
      case TypeKind::ScalarTypeType:
      case TypeKind::LayoutType:
      case TypeKind::MemoryFormatType:
        require(field, is_integer, type);
        return number.toScalar().to<int64_t>();
      default:
        field.fail_not_implemented("an argument of type " + type->repr_str() + " is not supported");
    }
  }

  const NamedValues& values_;
  std::vector<Value*>& operands_;
};

} // namespace

void NamedValues::define(const JsonField& name, Value* value) {
  name.check(
      values_.emplace(name.text(), value).second, "the name \"", name.text().substr(0, 80), "\" is defined twice");
}

Value* NamedValues::find(const JsonField& name) const {
  const auto found = values_.find(name.text());
  name.check(
      found != values_.end(), "the name \"", name.text().substr(0, 80), "\" is used, but not defined before it is");
  return found->second;
}

ArgumentsAndOperands read_arguments(
    const JsonField& inputs,
    const c10::FunctionSchema& schema,
    const NamedValues& values,
    const std::map<std::string, std::string>& renamed) {
  ArgumentsAndOperands result;
  result.arguments.resize(schema.arguments().size());
  ArgumentReader reader(values, result.operands);
  std::vector<std::optional<JsonField>> given(schema.arguments().size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto input = inputs[i];
    const auto& name = input["name"].text();
    const auto other = renamed.find(name);
    const auto index = schema.argumentIndexWithName(other == renamed.end() ? name : other->second);
    input.check(index.has_value(), schema.name(), " has no argument \"", name.substr(0, 80), "\"");
    input.check(!given[*index], "the argument \"", name, "\" is given twice");
    given[*index] = input["arg"];
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const auto& argument = schema.arguments()[i];
    if (given[i]) {
      result.arguments[i] = reader.read(*given[i], argument.real_type(), argument.N());
    } else {
      inputs.check(
          argument.default_value().has_value(), schema.name(), " needs the argument \"", argument.name(),
          "\", but it is not given");
    }
  }
  return result;
}

ArgumentsAndOperands read_numbers(const JsonField& inputs, const NamedValues& values) {
  ArgumentsAndOperands result;
  ArgumentReader reader(values, result.operands);
  for (size_t i = 0; i < inputs.size(); ++i) {
    result.arguments.push_back(reader.number(inputs[i]["arg"]));
  }
  return result;
}

std::optional<IValue> read_constant(const JsonField& field) {
  const auto [tag, value] = field.tagged();
  if (tag == "as_none") {
    return IValue();
  }
  if (tag == "as_string") {
    return value.text();
  }
  return plain_number(tag, value);
}

} // namespace weft::graph
