#include "weft/checkpoint/read_items.h"

#include "weft/checkpoint/chunk_checksums.h"
#include "weft/checkpoint/chunk_choice.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace weft {

namespace {

/// Divides a box along its outermost dims in the file, until no box has more than `limit` bytes.
void divide(const ReadBox& box, uint64_t element_bytes, uint64_t limit, std::vector<ReadBox>& result) {
  const auto bytes = box_bytes(box, element_bytes);
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
    divide(narrowed_box(box, *dim, from, std::min(step, size - from), element_bytes), element_bytes, limit, result);
  }
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
    const bool needs_memory = !is_consecutive(box) || !is_direct(box, target_);
    std::vector<ReadBox> divided;
    divide(box, element_bytes_, needs_memory ? kScratchBytes / 2 : kItemBytes, divided);
    for (auto& each : divided) {
      const auto kind = is_consecutive(each) ? ReadItem::Kind::Consecutive : ReadItem::Kind::Rows;
      const auto begin = each.begin;
      const auto bytes = box_extent(each, element_bytes_);
      items.push_back({.target = number_, .kind = kind, .box = std::move(each), .begin = begin, .bytes = bytes});
    }
  }

  void plan_checksums(size_t p, std::vector<ReadItem>& items) {
    const auto& checksums = *checksums_of(p);
    const auto is_before = [](const ReadItem& a, const ReadItem& b) { return a.begin < b.begin; };
    if (!std::is_sorted(items.begin(), items.end(), is_before)) {
      std::sort(items.begin(), items.end(), is_before);
    }
    const auto chunks = choose_chunks(p, items);
    const bool are_separate =
        std::adjacent_find(items.begin(), items.end(), [](const ReadItem& item, const ReadItem& next) {
          return item.begin + item.bytes > next.begin;
        }) == items.end();
    if (are_separate) {
      verify_on_the_way(checksums, chunks, items);
    } else {
      verify_again(p, chunks, items);
    }
  }

  /// Who verifies a chunk.
  enum class Verified : uint8_t {
    Elsewhere, // this rank does not
    Complete,  // this rank does, because it reads all of the chunk by consecutive items
    Chosen     // this rank does, because it is the one that is chosen
  };

  /// By the number of the chunk, of the items of a part in the order of the file.
  std::vector<Verified> choose_chunks(size_t p, const std::vector<ReadItem>& items) const {
    const auto& checksums = *checksums_of(p);
    std::vector<uint64_t> missing(
        checksums.values.size(), checksums.chunk_bytes); // bytes that no consecutive item reads
    missing.back() = checksums.bytes - (missing.size() - 1) * checksums.chunk_bytes;
    for (const auto& item : items) {
      if (item.kind == ReadItem::Kind::Consecutive) {
        for_each_chunk(checksums, item.begin, item.begin + item.bytes, [&](uint64_t n, uint64_t from, uint64_t to) {
          missing[n] -= to - from;
        });
      }
    }
    std::vector<Verified> result(missing.size(), Verified::Elsewhere);
    ChunkChoice choice(target_, p);
    uint64_t next = 0; // chunk to be chosen
    for (const auto& item : items) {
      for_each_chunk(
          checksums, item.begin, item.begin + item.bytes, [&](uint64_t n, uint64_t /*from*/, uint64_t /*to*/) {
            if (n >= next) {
              result[n] = missing[n] == 0 ? Verified::Complete
                  : choice.is_chosen(n)   ? Verified::Chosen
                                          : Verified::Elsewhere;
              next = n + 1;
            }
          });
    }
    return result;
  }

  /// Gives the bytes between the items to the item before them: each byte of a chunk is verified by one item.
  static void verify_on_the_way(
      const ChunkChecksums& checksums,
      const std::vector<Verified>& chunks,
      std::vector<ReadItem>& items) {
    const auto begin_of_chunk = [&](uint64_t at) { return at - (at - checksums.begin) % checksums.chunk_bytes; };
    for (size_t i = 0; i < items.size(); ++i) {
      auto& item = items[i];
      const auto item_end = item.begin + item.bytes;
      const auto chunk_end =
          std::min(begin_of_chunk(item_end - 1) + checksums.chunk_bytes, checksums.begin + checksums.bytes);
      const auto from = i == 0 ? begin_of_chunk(item.begin) : item.begin;
      const auto to = i + 1 == items.size() ? chunk_end : items[i + 1].begin;
      add_ranges(checksums, from, to, item, [&](uint64_t n) { return chunks[n] != Verified::Elsewhere; });
      const bool has_others =
          !item.chunks.empty() && (item.chunks.front().begin < item.begin || item.chunks.back().end > item_end);
      if (has_others) {
        item.kind = ReadItem::Kind::Rows;
      }
    }
  }

  /// Where rows of one item are between those of another, chunks that no items read completely are read once more.
  void verify_again(size_t p, const std::vector<Verified>& chunks, std::vector<ReadItem>& items) const {
    const auto& checksums = *checksums_of(p);
    for (auto& item : items) {
      if (item.kind == ReadItem::Kind::Consecutive) {
        add_ranges(checksums, item.begin, item.begin + item.bytes, item, [&](uint64_t n) {
          return chunks[n] == Verified::Complete;
        });
      }
    }
    for (uint64_t n = 0; n < chunks.size(); ++n) {
      if (chunks[n] == Verified::Chosen) {
        const auto begin = checksums.begin + n * checksums.chunk_bytes;
        add_verification(
            p, n, begin, std::min(begin + checksums.chunk_bytes, checksums.begin + checksums.bytes), items);
      }
    }
  }

  /// What a range of the file has of the chunks that are verified.
  template <class Fn>
  static void add_ranges(
      const ChunkChecksums& checksums,
      uint64_t begin,
      uint64_t end,
      ReadItem& item,
      const Fn& is_verified) {
    for_each_chunk(checksums, begin, end, [&](uint64_t n, uint64_t from, uint64_t to) {
      if (is_verified(n)) {
        item.chunks.push_back({.number = n, .begin = from, .end = to});
      }
    });
  }

  void add_verification(size_t p, uint64_t n, uint64_t begin, uint64_t end, std::vector<ReadItem>& items) const {
    for (auto from = begin; from < end; from += kItemBytes) {
      const auto to = std::min(from + kItemBytes, end);
      items.push_back(
          {.target = number_,
           .kind = ReadItem::Kind::Verification,
           .box = {.part = p, .begin = from},
           .begin = from,
           .bytes = to - from,
           .chunks = {{.number = n, .begin = from, .end = to}}});
    }
  }

  const ReadTarget& target_;
  size_t number_;
  bool verify_;
  uint64_t element_bytes_;
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
