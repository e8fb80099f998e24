#include "weft/checkpoint/read_plan.h"

#include <algorithm>
#include <numeric>

namespace weft {

std::vector<ReadBox> plan_reads(const StoredTensor& stored, const BlockIndex& wanted) {
  std::vector<ReadBox> boxes;
  const auto ndim = wanted.size();
  const auto element_bytes = c10::elementSize(stored.dtype);
  for (size_t p = 0; p < stored.parts.size(); ++p) {
    const auto& part = stored.parts[p];
    if (block_numel(part.index) == 0) {
      continue;
    }
    std::vector<ReadBox> found = {
        {.part = p, .begin = part.begin, .sizes = {}, .strides = part.strides, .target_offset = {}}};
    for (size_t d = 0; d < ndim && !found.empty(); ++d) {
      std::vector<ReadBox> divided;
      for (const auto& [held_begin, wanted_begin, length] : intersect(part.index[d], wanted[d])) {
        for (const auto& box : found) {
          auto& next = divided.emplace_back(box);
          next.begin += static_cast<uint64_t>(held_begin * part.strides[d]) * element_bytes;
          next.sizes.push_back(length);
          next.target_offset.push_back(wanted_begin);
        }
      }
      found = std::move(divided);
    }
    boxes.insert(boxes.end(), found.begin(), found.end());
  }
  std::stable_sort(boxes.begin(), boxes.end(), [&](const ReadBox& a, const ReadBox& b) {
    return std::pair(stored.parts[a.part].file, a.begin) < std::pair(stored.parts[b.part].file, b.begin);
  });
  return boxes;
}

ByteRows byte_rows(const ReadBox& box, c10::IntArrayRef target_strides, size_t element_bytes) {
  const auto bytes = static_cast<int64_t>(element_bytes);
  ByteRows rows{.row_bytes = element_bytes, .dims = {}};
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    if (box.sizes[d] != 1) {
      rows.dims.push_back({box.sizes[d], box.strides[d] * bytes, target_strides[d] * bytes});
    }
  }
  std::sort(
      rows.dims.begin(), rows.dims.end(), [](const auto& a, const auto& b) { return a.file_stride > b.file_stride; });
  // The innermost dim joins the row, and the next one then, as long as they are consecutive on both sides.
  const auto is_consecutive = [](const ByteRows::Dim& dim, uint64_t length) {
    return dim.file_stride == static_cast<int64_t>(length) && dim.target_stride == static_cast<int64_t>(length);
  };
  while (!rows.dims.empty() && is_consecutive(rows.dims.back(), rows.row_bytes)) {
    rows.row_bytes *= static_cast<uint64_t>(rows.dims.back().count);
    rows.dims.pop_back();
  }
  return rows;
}

uint64_t box_bytes(const ReadBox& box, uint64_t element_bytes) {
  return std::accumulate(box.sizes.begin(), box.sizes.end(), element_bytes, [](uint64_t a, int64_t b) {
    return a * static_cast<uint64_t>(b);
  });
}

uint64_t box_extent(const ReadBox& box, uint64_t element_bytes) {
  uint64_t extent = element_bytes;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    extent += static_cast<uint64_t>((box.sizes[d] - 1) * box.strides[d]) * element_bytes;
  }
  return extent;
}

std::optional<size_t> outermost_dim(const ReadBox& box) {
  std::optional<size_t> outermost;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    if (box.sizes[d] > 1 && (!outermost || box.strides[d] > box.strides[*outermost])) {
      outermost = d;
    }
  }
  return outermost;
}

ReadBox narrowed_box(const ReadBox& box, size_t dim, int64_t from, int64_t length, uint64_t element_bytes) {
  auto next = box;
  next.begin += static_cast<uint64_t>(from * box.strides[dim]) * element_bytes;
  next.sizes[dim] = length;
  next.target_offset[dim] += from;
  return next;
}

} // namespace weft
