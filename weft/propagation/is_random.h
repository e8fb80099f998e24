#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

namespace weft {

/// Whether an operator may draw random numbers. Some draw only if an argument says so: dropout in training.
inline bool is_random(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::nondeterministic_seeded);
}

} // namespace weft
