#include "weft/checkpoint/read_items.h"

#include "weft/core/dense_strides.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weft {

namespace {

uint64_t bytes_of(const ReadBox& box, uint64_t element_bytes) {
  return std::accumulate(box.sizes.begin(), box.sizes.end(), element_bytes, [](uint64_t a, int64_t b) {
    return a * static_cast<uint64_t>(b);
  });
}

/// The bytes from the first element of a box in the file to the end of the last one.
uint64_t extent_of(const ReadBox& box, uint64_t element_bytes) {
  uint64_t extent = element_bytes;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    extent += static_cast<uint64_t>((box.sizes[d] - 1) * box.strides[d]) * element_bytes;
  }
  return extent;
}

/// The outermost dim of more than one index in the file; none for one element.
std::optional<size_t> outermost_dim(const ReadBox& box) {
  std::optional<size_t> outermost;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    if (box.sizes[d] > 1 && (!outermost || box.strides[d] > box.strides[*outermost])) {
      outermost = d;
    }
  }
  return outermost;
}

ReadBox narrowed(const ReadBox& box, size_t dim, int64_t from, int64_t length, uint64_t element_bytes) {
  auto next = box;
  next.begin += static_cast<uint64_t>(from * box.strides[dim]) * element_bytes;
  next.sizes[dim] = length;
  next.target_offset[dim] += from;
  return next;
}

/// Divides a box along its outermost dims in the file, until no box has more than `limit` bytes.
void divide(const ReadBox& box, uint64_t element_bytes, uint64_t limit, std::vector<ReadBox>& result) {
  const auto bytes = bytes_of(box, element_bytes);
  const auto dim = outermost_dim(box);
  if (bytes <= limit || !dim) {
    if (bytes > 0) {
      result.push_back(box);
    }
    return;
  }
  const auto size = box.sizes[*dim];
  const auto of_one = bytes / static_cast<uint64_t>(size);
  const auto step = std::max<int64_t>(1, static_cast<int64_t>(limit / of_one));
  for (int64_t from = 0; from < size; from += step) {
    divide(narrowed(box, *dim, from, std::min(step, size - from), element_bytes), element_bytes, limit, result);
  }
}

/// Divides a box so that no box has elements of two chunks.
void divide_at_chunks(
    const ReadBox& box,
    uint64_t element_bytes,
    const ChunkChecksums& checksums,
    std::vector<ReadBox>& result) {
  if (bytes_of(box, element_bytes) == 0) {
    return;
  }
  const auto chunk_of = [&](uint64_t at) { return (at - checksums.begin) / checksums.chunk_bytes; };
  const auto dim = outermost_dim(box);
  if (!dim || chunk_of(box.begin) == chunk_of(box.begin + extent_of(box, element_bytes) - 1)) {
    result.push_back(box);
    return;
  }
  const auto stride = static_cast<uint64_t>(box.strides[*dim]) * element_bytes;
  const auto inner = extent_of(narrowed(box, *dim, 0, 1, element_bytes), element_bytes);
  const auto size = box.sizes[*dim];
  for (int64_t from = 0; from < size;) {
    const auto begin = box.begin + static_cast<uint64_t>(from) * stride;
    const auto chunk_end = checksums.begin + (chunk_of(begin) + 1) * checksums.chunk_bytes;
    if (begin + inner > chunk_end) {
      divide_at_chunks(narrowed(box, *dim, from, 1, element_bytes), element_bytes, checksums, result);
      ++from;
      continue;
    }
    const auto count = static_cast<int64_t>((chunk_end - begin - inner) / stride) + 1;
    const auto length = std::min(count, size - from);
    result.push_back(narrowed(box, *dim, from, length, element_bytes));
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

class ItemPlanner {
 public:
  ItemPlanner(const ReadTarget& target, size_t number, bool verify)
      : target_(target), number_(number), verify_(verify), element_bytes_(c10::elementSize(target.stored->dtype)) {}

  std::vector<ReadItem> run() {
    std::map<size_t, std::vector<ReadItem>> of_parts;
    for (const auto& box : plan_reads(*target_.stored, target_.wanted)) {
      add_box(box, of_parts[box.part]);
    }
    std::vector<ReadItem> all;
    for (auto& [p, items] : of_parts) {
      if (checksums_of(p) != nullptr) {
        plan_checksums(p, items);
      }
      std::move(items.begin(), items.end(), std::back_inserter(all));
    }
    return all;
  }

 private:
  const ChunkChecksums* checksums_of(size_t p) const {
    return verify_ ? target_.stored->parts[p].checksums.get() : nullptr;
  }

  bool is_consecutive(const ReadBox& box) const {
    return byte_rows(box, packed_strides(box), element_bytes_).dims.empty();
  }

  void add_box(const ReadBox& box, std::vector<ReadItem>& items) const {
    const auto* checksums = checksums_of(box.part);
    std::vector<ReadBox> of_chunks;
    if (checksums == nullptr || is_consecutive(box)) {
      of_chunks.push_back(box);
    } else {
      divide_at_chunks(box, element_bytes_, *checksums, of_chunks);
    }
    std::vector<ReadBox> divided;
    for (const auto& each : of_chunks) {
      const bool needs_memory = !is_consecutive(each) || !is_direct(each, target_);
      divide(each, element_bytes_, needs_memory ? kScratchBytes / 2 : kItemBytes, divided);
    }
    for (auto& each : divided) {
      const auto kind = is_consecutive(each) ? ReadItem::Kind::Consecutive : ReadItem::Kind::Rows;
      const auto begin = each.begin;
      const auto bytes = bytes_of(each, element_bytes_);
      items.push_back(
          {.target = number_,
           .kind = kind,
           .box = std::move(each),
           .begin = begin,
           .bytes = bytes,
           .has_checksums = checksums != nullptr && kind == ReadItem::Kind::Consecutive});
    }
  }

  /// What is read of a chunk.
  struct ChunkReads {
    uint64_t consecutive_bytes = 0;
    bool is_left = false; // by an item that has elements of other chunks too
    std::vector<size_t> items = {};
  };

  void plan_checksums(size_t p, std::vector<ReadItem>& items) {
    const auto& checksums = *checksums_of(p);
    std::map<uint64_t, ChunkReads> chunks;
    for (size_t i = 0; i < items.size(); ++i) {
      const auto& item = items[i];
      const auto first = (item.begin - checksums.begin) / checksums.chunk_bytes;
      const bool is_consecutive = item.kind == ReadItem::Kind::Consecutive;
      const auto last =
          is_consecutive ? (item.begin + item.bytes - 1 - checksums.begin) / checksums.chunk_bytes : first;
      for (auto n = first; n <= last; ++n) {
        const auto begin = std::max(item.begin, checksums.begin + n * checksums.chunk_bytes);
        const auto end = std::min(item.begin + item.bytes, checksums.begin + (n + 1) * checksums.chunk_bytes);
        auto& chunk = chunks[n];
        chunk.consecutive_bytes += is_consecutive ? end - begin : 0;
        chunk.is_left = chunk.is_left || first != last;
        chunk.items.push_back(i);
      }
    }
    for (const auto& [n, chunk] : chunks) {
      const auto begin = checksums.begin + n * checksums.chunk_bytes;
      const auto bytes = std::min(checksums.chunk_bytes, checksums.begin + checksums.bytes - begin);
      const bool is_complete = chunk.consecutive_bytes == bytes;
      if (!is_complete && is_verifier(p, n) && !make_spans(chunk, begin, bytes, items)) {
        add_verification(p, begin, bytes, items);
      }
    }
  }

  /// Makes items read all bytes of their chunk, if they have elements of this one alone and follow each other in the file.
  bool make_spans(const ChunkReads& chunk, uint64_t begin, uint64_t bytes, std::vector<ReadItem>& items) const {
    if (chunk.is_left) {
      return false;
    }
    auto order = chunk.items;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return items[a].begin < items[b].begin; });
    std::vector<uint64_t> ends;
    for (size_t k = 0; k < order.size(); ++k) {
      const auto& item = items[order[k]];
      ends.push_back(k + 1 < order.size() ? items[order[k + 1]].begin : begin + bytes);
      const auto from = k == 0 ? begin : item.begin;
      if (item.begin + extent_of(item.box, element_bytes_) > ends[k] || ends[k] - from > kSpanBytes) {
        return false;
      }
    }
    for (size_t k = 0; k < order.size(); ++k) {
      auto& item = items[order[k]];
      item.kind = ReadItem::Kind::Span;
      item.begin = k == 0 ? begin : item.begin;
      item.bytes = ends[k] - item.begin;
      item.has_checksums = true;
    }
    return true;
  }

  /// Whether this rank reads a chunk once more: whether it wants the element of the chunk's number, by a sequence that spreads evenly.
  bool is_verifier(size_t p, uint64_t n) {
    const auto number = static_cast<uint64_t>(p) * 128 + n;
    if (static_cast<int64_t>(number % static_cast<uint64_t>(target_.replicas)) != target_.replica) {
      return false;
    }
    constexpr double kGolden = 0.6180339887498949;
    const auto fraction = std::fmod(static_cast<double>(number) * kGolden, 1.0);
    const auto element_of = [&](uint64_t count) {
      return std::min(static_cast<uint64_t>(fraction * static_cast<double>(count)), count - 1);
    };
    const auto& checksums = *target_.stored->parts[p].checksums;
    const auto part = box_of_part(p);
    const bool is_in_order = part.strides == dense_strides(part.sizes);
    if (is_in_order && part.begin == checksums.begin && bytes_of(part, element_bytes_) == checksums.bytes) {
      const auto first = n * checksums.chunk_bytes;
      const auto count = std::min(checksums.chunk_bytes, checksums.bytes - first) / element_bytes_;
      return is_wanted(p, part, first / element_bytes_ + element_of(count));
    }
    const auto& boxes = chunk_boxes(p)[n];
    uint64_t count = 0;
    for (const auto& box : boxes) {
      count += bytes_of(box, element_bytes_) / element_bytes_;
    }
    auto element = element_of(count);
    for (const auto& box : boxes) {
      const auto of_box = bytes_of(box, element_bytes_) / element_bytes_;
      if (element < of_box) {
        return is_wanted(p, box, element);
      }
      element -= of_box;
    }
    return false;
  }

  ReadBox box_of_part(size_t p) const {
    const auto& part = target_.stored->parts[p];
    const auto shape = block_shape(part.index);
    return {
        .part = p,
        .begin = part.begin,
        .sizes = shape,
        .strides = part.strides,
        .target_offset = c10::DimVector(shape.size(), 0)};
  }

  /// Whether this rank wants the element of a box with this number, in the order of its dims.
  bool is_wanted(size_t p, const ReadBox& box, uint64_t element) const {
    const auto& part = target_.stored->parts[p];
    auto rest = static_cast<int64_t>(element);
    bool is_wanted = true;
    for (size_t d = box.sizes.size(); d-- > 0;) {
      const auto position = box.target_offset[d] + rest % box.sizes[d];
      rest /= box.sizes[d];
      is_wanted = is_wanted && contains(target_.wanted[d], index_at(part.index[d], position));
    }
    return is_wanted;
  }

  /// The elements of a part by chunks.
  std::map<uint64_t, std::vector<ReadBox>>& chunk_boxes(size_t p) {
    auto& found = chunk_boxes_[p];
    if (found.empty()) {
      const auto& checksums = *target_.stored->parts[p].checksums;
      std::vector<ReadBox> boxes;
      divide_at_chunks(box_of_part(p), element_bytes_, checksums, boxes);
      for (auto& box : boxes) {
        found[(box.begin - checksums.begin) / checksums.chunk_bytes].push_back(std::move(box));
      }
    }
    return found;
  }

  void add_verification(size_t p, uint64_t begin, uint64_t bytes, std::vector<ReadItem>& items) const {
    for (uint64_t from = 0; from < bytes; from += kItemBytes) {
      ReadBox box{.part = p, .begin = begin + from};
      items.push_back(
          {.target = number_,
           .kind = ReadItem::Kind::Verification,
           .box = std::move(box),
           .begin = begin + from,
           .bytes = std::min(kItemBytes, bytes - from),
           .has_checksums = true});
    }
  }

  const ReadTarget& target_;
  size_t number_;
  bool verify_;
  uint64_t element_bytes_;
  std::map<size_t, std::map<uint64_t, std::vector<ReadBox>>> chunk_boxes_;
};

} // namespace

std::vector<ReadItem> plan_items(const ReadTarget& target, size_t number, bool verify) {
  return ItemPlanner(target, number, verify).run();
}

c10::DimVector packed_strides(const ReadBox& box) {
  c10::SmallVector<size_t, 8> order(box.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(-box.strides[a], a) < std::pair(-box.strides[b], b);
  });
  c10::DimVector strides(box.sizes.size());
  int64_t next = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = next;
    next *= box.sizes[*d];
  }
  return strides;
}

bool is_direct(const ReadBox& box, const ReadTarget& target) {
  const auto& local = target.local;
  const auto dtype = target.stored->dtype;
  // A bool byte other than 0 and 1 would be undefined behaviour, so these are converted.
  if (!local.device().is_cpu() || local.scalar_type() != dtype || dtype == at::kBool || local.is_conj() ||
      local.is_neg()) {
    return false;
  }
  const auto element_bytes = c10::elementSize(dtype);
  return byte_rows(box, local.strides(), element_bytes).row_bytes >=
      byte_rows(box, packed_strides(box), element_bytes).row_bytes;
}

} // namespace weft
