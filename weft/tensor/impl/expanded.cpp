#include "weft/tensor/impl/expanded.h"

#include <c10/util/Exception.h>

#include <set>

namespace weft {

namespace {

/// Whether the operator writes the same value to all elements it writes. Torch's kernels accept expanded tensors then.
bool only_fills(std::string_view op) {
  static const std::set<std::string_view> kFills = {
      "aten::fill_", "aten::zero_", "aten::masked_fill_", "aten::index_fill_", "aten::_foreach_zero_"};
  return kFills.contains(op);
}

bool is_expanded(const TensorSpec& spec) {
  for (int64_t d = 0; d < spec.dim(); ++d) {
    if (spec.sizes()[d] > 1 && spec.strides()[d] == 0) {
      return spec.numel() > 0;
    }
  }
  return false;
}

} // namespace

void check_not_expanded(std::string_view op, const TensorSpec& written) {
  if (!only_fills(op)) {
    check_takes_copy(op, written);
  }
}

void check_takes_copy(std::string_view op, const TensorSpec& written) {
  TORCH_CHECK_VALUE(
      !is_expanded(written), "[", op,
      "] elements in different places of memory are required of a tensor that is written to, but got the expanded ",
      written, ". Clone it first.");
}

} // namespace weft
