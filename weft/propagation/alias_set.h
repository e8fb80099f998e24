#pragma once

#include <ATen/core/function_schema.h>

namespace weft {

/// The alias set of a tensor, or of the tensors in a list: Tensor(a) and Tensor(a)[]. nullptr if it has none.
inline const c10::AliasInfo* alias_of(const c10::Argument& argument) {
  const auto* info = argument.alias_info();
  if (info != nullptr && info->beforeSets().empty() && !info->containedTypes().empty()) {
    return &info->containedTypes()[0];
  }
  return info;
}

} // namespace weft
