#include "weft/graph/ir/schema_match.h"

#include "weft/graph/ir/constant_text.h"

#include <algorithm>

namespace weft::graph {

namespace {

using c10::TypeKind;

bool is_number(const c10::IValue& value) {
  return value.isInt() || value.isDouble() || value.isBool() || value.isComplexDouble();
}

bool constant_matches(const c10::IValue& value, const c10::Type& type) {
  if (value.isNone()) {
    return type.kind() == TypeKind::OptionalType || type.kind() == TypeKind::AnyType ||
        type.kind() == TypeKind::NoneType;
  }
  const auto& bare = without_none(type);
  switch (bare.kind()) {
    case TypeKind::TensorType:
      return value.isTensor() || is_number(value);
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::ScalarTypeType:
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
      return value.isInt();
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return value.isDouble() || value.isInt();
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return value.isBool();
    case TypeKind::NumberType:
    case TypeKind::ComplexType:
      return is_number(value);
    case TypeKind::StringType:
      return value.isString();
    case TypeKind::DeviceObjType:
      return value.isDevice();
    case TypeKind::GeneratorType:
      return value.isGenerator();
    case TypeKind::ListType: {
      const auto element = element_type(bare);
      return value.isList() && std::all_of(value.toListRef().begin(), value.toListRef().end(), [&](const auto& each) {
               return constant_matches(each, *element);
             });
    }
    default:
      return true; // custom objects, which are not checked
  }
}

bool number_matches(NumberKind kind, const c10::Type& bare) {
  switch (bare.kind()) {
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return kind == NumberKind::Int;
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return kind != NumberKind::Bool;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return kind == NumberKind::Bool;
    default:
      return bare.kind() == TypeKind::NumberType || bare.kind() == TypeKind::AnyType;
  }
}

} // namespace

bool matches(const Type& value, const c10::Type& type) {
  const auto& bare = without_none(type);
  if (const auto* number = std::get_if<NumberType>(&value)) {
    return number_matches(number->kind, bare);
  }
  return bare.kind() == TypeKind::TensorType || bare.kind() == TypeKind::AnyType;
}

bool matches(const Node& node, const Argument& argument, const c10::Type& type) {
  const auto& bare = without_none(type);
  switch (argument.kind()) {
    case Argument::Kind::Constant:
      return constant_matches(argument.constant(), type);
    case Argument::Kind::Operand:
      return bare.kind() == TypeKind::TensorType || matches(node.operand(argument.operand())->type, type);
    case Argument::Kind::List: {
      const auto element = element_type(bare);
      return bare.kind() == TypeKind::ListType &&
          std::all_of(argument.elements().begin(), argument.elements().end(), [&](const Argument& each) {
               return !each.is_absent() && !each.is_list() && matches(node, each, *element);
             });
    }
    default:
      return false;
  }
}

} // namespace weft::graph
