#pragma once

#include <torch/library.h>

namespace weft {

/// Registers the forms of `to` that name a device. To meta a distributed tensor stays distributed, in the same layout; torch
/// would choose a kernel by the device that is asked for, and give a plain tensor. In inference mode it still does.
///
///   t.to("meta")   f32[8,4] {S(0)} without data
void register_to_meta(torch::Library& library);

} // namespace weft
