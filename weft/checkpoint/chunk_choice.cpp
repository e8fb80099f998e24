#include "weft/checkpoint/chunk_choice.h"

#include "weft/core/dense_strides.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace weft {

namespace {

/// Divides a box so that no box has elements of two chunks.
void divide_at_chunks(
    const ReadBox& box,
    uint64_t element_bytes,
    const ChunkChecksums& checksums,
    std::vector<ReadBox>& result) {
  if (box_bytes(box, element_bytes) == 0) {
    return;
  }
  const auto chunk_of = [&](uint64_t at) { return (at - checksums.begin) / checksums.chunk_bytes; };
  const auto dim = outermost_dim(box);
  if (!dim || chunk_of(box.begin) == chunk_of(box.begin + box_extent(box, element_bytes) - 1)) {
    result.push_back(box);
    return;
  }
  const auto stride = static_cast<uint64_t>(box.strides[*dim]) * element_bytes;
  const auto inner = box_extent(narrowed_box(box, *dim, 0, 1, element_bytes), element_bytes);
  const auto size = box.sizes[*dim];
  for (int64_t from = 0; from < size;) {
    const auto begin = box.begin + static_cast<uint64_t>(from) * stride;
    const auto chunk_end = checksums.begin + (chunk_of(begin) + 1) * checksums.chunk_bytes;
    if (begin + inner > chunk_end) {
      divide_at_chunks(narrowed_box(box, *dim, from, 1, element_bytes), element_bytes, checksums, result);
      ++from;
      continue;
    }
    const auto count = static_cast<int64_t>((chunk_end - begin - inner) / stride) + 1;
    const auto length = std::min(count, size - from);
    result.push_back(narrowed_box(box, *dim, from, length, element_bytes));
    from += length;
  }
}

/// The global index at a position of runs.
int64_t index_at(const Runs& runs, int64_t position) {
  for (const auto& run : runs) {
    if (position < run.length) {
      return run.begin + position;
    }
    position -= run.length;
  }
  TORCH_INTERNAL_ASSERT(false, "a position outside of its runs");
}

bool contains(const Runs& runs, int64_t index) {
  return std::any_of(
      runs.begin(), runs.end(), [&](const Run& run) { return run.begin <= index && index < run.begin + run.length; });
}

} // namespace

ChunkChoice::ChunkChoice(const ReadTarget& target, size_t part)
    : target_(target),
      part_(target.stored->parts[part]),
      number_of_part_(part),
      element_bytes_(c10::elementSize(target.stored->dtype)) {
  const auto shape = block_shape(part_.index);
  box_ = {
      .part = part,
      .begin = part_.begin,
      .sizes = shape,
      .strides = part_.strides,
      .target_offset = c10::DimVector(shape.size(), 0)};
  const auto& checksums = *part_.checksums;
  is_in_order_ = box_.strides == dense_strides(box_.sizes) && box_.begin == checksums.begin &&
      box_bytes(box_, element_bytes_) == checksums.bytes;
}

bool ChunkChoice::is_chosen(uint64_t number) {
  const auto global_number = number_of_part_ * 128 + number;
  if (static_cast<int64_t>(global_number % static_cast<uint64_t>(target_.replicas)) != target_.replica) {
    return false;
  }
  // Multiples of this number, without the digits before the point, are spread evenly, so that all ranks verify equally much.
  constexpr double kGolden = 0.6180339887498949;
  const auto multiple = static_cast<double>(global_number) * kGolden;
  const auto fraction = multiple - static_cast<double>(static_cast<uint64_t>(multiple));
  const auto element_of = [&](uint64_t count) {
    return std::min(static_cast<uint64_t>(fraction * static_cast<double>(count)), count - 1);
  };
  const auto& checksums = *part_.checksums;
  if (is_in_order_) {
    const auto first = number * checksums.chunk_bytes;
    const auto count = std::min(checksums.chunk_bytes, checksums.bytes - first) / element_bytes_;
    return is_wanted(box_, first / element_bytes_ + element_of(count));
  }
  if (!boxes_) {
    boxes_ = boxes_of_chunks();
  }
  const auto& boxes = (*boxes_)[number];
  uint64_t count = 0;
  for (const auto& box : boxes) {
    count += box_bytes(box, element_bytes_) / element_bytes_;
  }
  auto element = count == 0 ? 0 : element_of(count);
  for (const auto& box : boxes) {
    const auto of_box = box_bytes(box, element_bytes_) / element_bytes_;
    if (element < of_box) {
      return is_wanted(box, element);
    }
    element -= of_box;
  }
  return false;
}

/// Whether this rank wants the element of a box with this number, in the order of its dims.
bool ChunkChoice::is_wanted(const ReadBox& box, uint64_t element) const {
  auto rest = static_cast<int64_t>(element);
  for (size_t d = box.sizes.size(); d-- > 0;) {
    const auto position = box.target_offset[d] + rest % box.sizes[d];
    rest /= box.sizes[d];
    if (!contains(target_.wanted[d], index_at(part_.index[d], position))) {
      return false;
    }
  }
  return true;
}

std::map<uint64_t, std::vector<ReadBox>> ChunkChoice::boxes_of_chunks() const {
  const auto& checksums = *part_.checksums;
  std::vector<ReadBox> boxes;
  divide_at_chunks(box_, element_bytes_, checksums, boxes);
  std::map<uint64_t, std::vector<ReadBox>> result;
  for (auto& box : boxes) {
    result[(box.begin - checksums.begin) / checksums.chunk_bytes].push_back(std::move(box));
  }
  return result;
}

} // namespace weft
