#pragma once

#include <torch/library.h>

namespace weft {

/// `where` with a number in the place of a tensor. ATen makes a tensor of the number on the device of the others. Where that
/// is meta, the dispatcher would take the plain tensor's kernel before the distributed one's, and the result would be plain;
/// here the number stays on the CPU.
void register_where_number(torch::Library& library);

} // namespace weft
