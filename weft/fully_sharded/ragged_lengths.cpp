#include "weft/fully_sharded/ragged_lengths.h"

#include <c10/util/accumulate.h>

#include <algorithm>

namespace weft {

namespace {

/// The row of a tensor that begins at `start` in the buffer at which the range after `target` begins: the nearest boundary.
int64_t boundary(const c10::DimVector& shape, int64_t start, int64_t target) {
  const auto elements = c10::multiply_integers(shape);
  if (target <= start || elements == 0) {
    return 0;
  }
  if (target >= start + elements) {
    return shape[0];
  }
  const auto row = elements / shape[0];
  return (target - start + row / 2) / row;
}

} // namespace

std::vector<std::vector<int64_t>> ragged_lengths(c10::ArrayRef<c10::DimVector> shapes, int64_t members) {
  int64_t total = 0;
  for (const auto& shape : shapes) {
    total += c10::multiply_integers(shape);
  }
  std::vector<std::vector<int64_t>> result;
  int64_t start = 0;
  for (const auto& shape : shapes) {
    auto& lengths = result.emplace_back();
    int64_t begin = 0;
    for (int64_t member = 1; member <= members; ++member) {
      // The product of two numbers of elements may have more than 64 bits.
      const auto target = static_cast<int64_t>(static_cast<__int128>(total) * member / members);
      const auto end = member == members ? shape[0] : boundary(shape, start, target);
      lengths.push_back(end - begin);
      begin = end;
    }
    start += c10::multiply_integers(shape);
  }
  return result;
}

} // namespace weft
