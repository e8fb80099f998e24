#pragma once

#include <torch/library.h>

namespace weft {

/// `where` with a number in place of a tensor. ATen converts the number to a tensor on the device of the other
/// operands. If that is the meta device, the dispatcher would prefer the kernel of plain meta tensors to that of
/// distributed ones, and the result would be plain. This kernel keeps the number on the CPU.
void register_where_number(torch::Library& library);

} // namespace weft
