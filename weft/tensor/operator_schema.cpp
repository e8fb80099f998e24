#include "weft/tensor/operator_schema.h"

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
    case c10::TypeKind::ListType:
      return kind_of(*type.castRaw<c10::ListType>()->getElementType()) == ArgumentKind::Tensor
          ? ArgumentKind::TensorList
          : kind_of(*type.castRaw<c10::ListType>()->getElementType());
    case c10::TypeKind::FloatType:
    case c10::TypeKind::NumberType:
    case c10::TypeKind::GeneratorType:
      return ArgumentKind::Value;
    default:
      return ArgumentKind::Static;
  }
}

} // namespace

OperatorSchema::OperatorSchema(const c10::FunctionSchema& schema) {
  for (const auto& argument : schema.arguments()) {
    arguments.push_back(kind_of(*argument.type()));
    is_out.push_back(argument.is_out());
    mutates = mutates || (argument.alias_info() != nullptr && argument.alias_info()->isWrite());
  }
  for (const auto& ret : schema.returns()) {
    Return result;
    const auto kind = kind_of(*ret.type());
    result.is_tensor = kind == ArgumentKind::Tensor || kind == ArgumentKind::TensorList;
    if (const auto* alias = ret.alias_info()) {
      for (size_t i = 0; i < schema.arguments().size(); ++i) {
        const auto* other = schema.arguments()[i].alias_info();
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
