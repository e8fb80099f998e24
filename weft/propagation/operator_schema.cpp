#include "weft/propagation/operator_schema.h"

#include "weft/propagation/alias_set.h"

#include <ATen/core/jit_type.h>

namespace weft {

namespace {

using ArgumentKind = OperatorSchema::ArgumentKind;

ArgumentKind kind_of(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::Tensor;
    case c10::TypeKind::OptionalType:
      return kind_of(*type.castRaw<c10::OptionalType>()->getElementType());
    case c10::TypeKind::ListType: {
      const auto& element = *type.castRaw<c10::ListType>()->getElementType();
      const auto kind = kind_of(element);
      if (kind != ArgumentKind::Tensor) {
        return kind;
      }
      return element.kind() == c10::TypeKind::OptionalType ? ArgumentKind::OptionalTensorList
                                                           : ArgumentKind::TensorList;
    }
    case c10::TypeKind::FloatType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::GeneratorType:
      return ArgumentKind::Value;
    default:
      return ArgumentKind::Static;
  }
}

bool is_filled_in(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  return argument.name() == "value" &&
      (schema.name().starts_with("aten::masked_fill") || schema.name() == "aten::constant_pad_nd");
}

/// Whether a rule reads the value of a number.
bool is_read_by_rule(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  return schema.name() == "aten::histc" && (argument.name() == "min" || argument.name() == "max");
}

} // namespace

OperatorSchema::OperatorSchema(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    const auto* alias = alias_of(argument);
    if (alias != nullptr && alias->isWrite()) {
      written.push_back(static_cast<int64_t>(arguments.size()));
    }
    arguments.push_back(kind_of(*argument.type()));
    if (arguments.back() == ArgumentKind::Value && is_filled_in(schema, argument)) {
      arguments.back() = ArgumentKind::Fill;
    } else if (is_read_by_rule(schema, argument)) {
      arguments.back() = ArgumentKind::Static;
    }
    is_out.push_back(argument.is_out());
  }
  for (const auto& ret : schema.returns()) {
    Return result;
    const auto kind = kind_of(*ret.type());
    result.is_tensor = kind == ArgumentKind::Tensor || kind == ArgumentKind::TensorList;
    if (const auto* alias = alias_of(ret)) {
      for (size_t i = 0; i < schema.arguments().size(); ++i) {
        const auto* other = alias_of(schema.arguments()[i]);
        if (other != nullptr && other->beforeSets() == alias->beforeSets()) {
          (alias->isWrite() ? result.stored_in : result.view_of) = static_cast<int64_t>(i);
        }
      }
    }
    is_view = is_view || result.view_of >= 0;
    returns.push_back(result);
  }
}

} // namespace weft
