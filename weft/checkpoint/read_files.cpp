#include "weft/checkpoint/read_files.h"

#include "weft/checkpoint/chunk_checksums.h"
#include "weft/checkpoint/open_files.h"
#include "weft/core/checksum_text.h"
#include "weft/files/crc32c.h"
#include "weft/files/share_work.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <span>
#include <thread>
#include <tuple>

namespace weft {

namespace {

constexpr uint64_t kReadStep = 256 << 10; // stay in the cache between reading and the checksum
/// Whether rows are copied from mapped pages, as they are, because a call for each takes several times longer: where they are short, and
/// half of the pages between them are wanted anyway, since all of these are read.
bool are_close(const ByteRows& rows) {
  constexpr int64_t kShort = 64 << 10;
  constexpr int64_t kPage = 4 << 10;
  const auto stride = rows.dims.back().file_stride;
  return stride < kShort && stride <= 2 * (static_cast<int64_t>(rows.row_bytes) + kPage);
}

constexpr uint64_t kBatchBytes = 4 << 20; // of a file, in which one thread reads all items

at::Tensor narrowed(at::Tensor local, const ReadBox& box) {
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    local = local.narrow(static_cast<int64_t>(d), box.target_offset[d], box.sizes[d]);
  }
  return local;
}

/// Calls `fn` with the place in the file of every row and its place in the target, in bytes.
template <class Fn>
void for_each_row(const ReadBox& box, const ByteRows& rows, const Fn& fn) {
  c10::DimVector at(rows.dims.size(), 0);
  while (true) {
    uint64_t from = box.begin;
    int64_t to = 0;
    for (size_t d = 0; d < at.size(); ++d) {
      from += static_cast<uint64_t>(at[d] * rows.dims[d].file_stride);
      to += at[d] * rows.dims[d].target_stride;
    }
    fn(from, to);
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == rows.dims[d - 1].count) {
      at[--d] = 0;
    }
    if (d == 0) {
      return;
    }
  }
}

/// Where a thread puts what it does not read straight into a tensor.
struct ThreadMemory {
  std::vector<char> scratch = {};
  OpenFiles::Window window = {};
};

class TensorReader {
 public:
  TensorReader(const StoredTensors& stored, c10::ArrayRef<ReadTarget> targets, const ReadSettings& settings)
      : stored_(stored), targets_(targets), settings_(settings), files_(stored, settings.where) {}

  ReadReport run() {
    for (size_t t = 0; t < targets_.size(); ++t) {
      plan(t);
    }
    std::stable_sort(items_.begin(), items_.end(), [&](const ReadItem& a, const ReadItem& b) {
      return std::pair(part_of(a).file, a.begin) < std::pair(part_of(b).file, b.begin);
    });
    const auto threads = settings_.threads > 0 ? static_cast<size_t>(settings_.threads)
                                               : std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 4);
    const auto batches = batches_of_items();
    share_work(threads, batches.size(), [&](const NextItem& next) {
      ThreadMemory memory;
      while (const auto i = next()) {
        for (auto& item : batches[*i]) {
          read(item, memory);
        }
      }
      files_.check(memory.window);
    });
    compare_checksums();
    report_.read_bytes = read_bytes_;
    return report_;
  }

 private:
  const StoredPart& part_of(const ReadItem& item) const {
    return targets_[item.target].stored->parts[item.box.part];
  }

  /// The items whose ranges begin in the same range of a file.
  std::vector<std::span<ReadItem>> batches_of_items() {
    std::vector<std::span<ReadItem>> batches;
    const auto place = [&](const ReadItem& item) { return std::pair(part_of(item).file, item.begin / kBatchBytes); };
    for (size_t from = 0, to = 0; from < items_.size(); from = to) {
      while (to < items_.size() && place(items_[to]) == place(items_[from])) {
        ++to;
      }
      batches.emplace_back(items_.data() + from, to - from);
    }
    return batches;
  }

  void plan(size_t t) {
    const auto& target = targets_[t];
    const auto element_bytes = c10::elementSize(target.stored->dtype);
    uint64_t wanted = 0;
    for (auto& item : plan_items(target, t, settings_.verify)) {
      if (item.kind == ReadItem::Kind::Verification) {
        report_.verified_bytes += item.bytes;
      } else {
        wanted += static_cast<uint64_t>(c10::multiply_integers(item.box.sizes)) * element_bytes;
      }
      items_.push_back(std::move(item));
    }
    report_.wanted_bytes += wanted;
    const auto expected = static_cast<uint64_t>(block_numel(target.wanted)) * element_bytes;
    TORCH_CHECK_VALUE(
        wanted == expected, "[", settings_.where, "] '", target.name, "': the files in ", stored_.folder, " must have ",
        expected, " bytes of it, but they have ", wanted, ".");
  }

  void read(ReadItem& item, ThreadMemory& memory) {
    if (item.kind == ReadItem::Kind::Verification) {
      for (uint64_t from = 0; from < item.bytes; from += kReadStep) {
        const auto bytes = std::min(kReadStep, item.bytes - from);
        add_to(item, item.begin + from, {range_of_file(item, from, bytes, memory), bytes});
      }
      return;
    }
    const auto& target = targets_[item.target];
    const auto dtype = target.stored->dtype;
    if (is_direct(item.box, target)) {
      const auto strides = target.local.strides();
      int64_t offset = 0;
      for (size_t d = 0; d < strides.size(); ++d) {
        offset += item.box.target_offset[d] * strides[d] * target.local.element_size();
      }
      read_box(item, strides, static_cast<char*>(target.local.mutable_data_ptr()) + offset, memory);
      return;
    }
    const c10::InferenceMode inference(target.local.is_inference());
    const c10::NoGradGuard no_grad;
    const auto strides = packed_strides(item.box);
    const auto options = at::TensorOptions(dtype == at::kBool ? at::kByte : dtype).device(at::kCPU);
    const auto packed = at::empty_strided(item.box.sizes, strides, options.requires_grad(false));
    read_box(item, strides, static_cast<char*>(packed.mutable_data_ptr()), memory);
    narrowed(target.local, item.box).copy_(dtype == at::kBool ? packed.ne(0) : packed);
  }

  /// Bytes of an item's range, in mapped pages or read.
  const char* range_of_file(const ReadItem& item, uint64_t from, uint64_t bytes, ThreadMemory& memory) {
    const auto file = part_of(item).file;
    if (const auto* mapped = files_.mapped(memory.window, file, item.begin + from, bytes)) {
      return mapped;
    }
    memory.scratch.resize(std::max<size_t>(memory.scratch.size(), bytes));
    files_.read(file, item.begin + from, memory.scratch.data(), bytes);
    return memory.scratch.data();
  }

  /// Reads the elements of an item to `to`, where they have these strides.
  void read_box(ReadItem& item, c10::IntArrayRef strides, char* to, ThreadMemory& memory) {
    const auto file = part_of(item).file;
    const auto rows = byte_rows(item.box, strides, c10::elementSize(targets_[item.target].stored->dtype));
    if (item.kind == ReadItem::Kind::Consecutive) {
      read_bytes_ += item.bytes;
      const auto step = item.has_checksums ? kReadStep : item.bytes;
      for (uint64_t from = 0; from < item.bytes; from += step) {
        const auto bytes = std::min(step, item.bytes - from);
        files_.read(file, item.begin + from, to + from, bytes);
        add_to(item, item.begin + from, {to + from, bytes});
      }
    } else if (item.kind == ReadItem::Kind::Span) {
      read_bytes_ += item.bytes;
      read_span(item, rows, to, memory);
    } else if (
        are_close(rows) && // asks for the first row whether the file can be mapped
        files_.mapped(memory.window, file, item.box.begin, rows.row_bytes) != nullptr) {
      read_bytes_ += item.bytes;
      for_each_row(item.box, rows, [&](uint64_t from, int64_t target) {
        if (const auto* row = files_.mapped(memory.window, file, from, rows.row_bytes)) {
          std::memcpy(to + target, row, rows.row_bytes);
        } else {
          files_.read(file, from, to + target, rows.row_bytes);
        }
      });
    } else {
      read_rows(item, rows, to, memory.scratch);
    }
  }

  /// Copies the rows of a range of the file, of which all bytes are verified, while these are in the cache.
  void read_span(ReadItem& item, const ByteRows& rows, char* to, ThreadMemory& memory) {
    const auto* range = range_of_file(item, 0, item.bytes, memory);
    uint64_t verified = 0;
    const auto verify_to = [&](uint64_t end) {
      while (verified < end) {
        const auto bytes = std::min(kReadStep, item.bytes - verified);
        add_to(item, item.begin + verified, {range + verified, bytes});
        verified += bytes;
      }
    };
    for_each_row(item.box, rows, [&](uint64_t from, int64_t target) {
      verify_to(from + rows.row_bytes - item.begin);
      std::memcpy(to + target, range + (from - item.begin), rows.row_bytes);
    });
    verify_to(item.bytes);
  }

  /// Reads rows that are far from each other, or whose file cannot be mapped: those that are small and close by one call.
  void read_rows(const ReadItem& item, const ByteRows& rows, char* to, std::vector<char>& scratch) {
    const auto file = part_of(item).file;
    PendingRows pending;
    for_each_row(item.box, rows, [&](uint64_t from, int64_t target) {
      const auto end = pending.empty() ? 0 : pending.back().first + rows.row_bytes;
      const bool joins = !pending.empty() && rows.row_bytes < kSmallRow && from >= end &&
          from - end <= rows.row_bytes && from + rows.row_bytes - pending.front().first <= kScratchBytes;
      if (!joins) {
        flush(pending, file, rows.row_bytes, scratch);
      }
      pending.emplace_back(from, to + target);
    });
    flush(pending, file, rows.row_bytes, scratch);
  }

  using PendingRows = std::vector<std::pair<uint64_t, char*>>; // places in the file and in memory

  void flush(PendingRows& pending, size_t file, uint64_t row_bytes, std::vector<char>& scratch) {
    if (pending.empty()) {
      return;
    }
    const auto begin = pending.front().first;
    const auto bytes = pending.back().first + row_bytes - begin;
    read_bytes_ += bytes;
    if (pending.size() == 1) {
      files_.read(file, begin, pending.front().second, bytes);
    } else {
      scratch.resize(std::max<size_t>(scratch.size(), bytes));
      files_.read(file, begin, scratch.data(), bytes);
      for (const auto& [from, to] : pending) {
        std::memcpy(to, scratch.data() + (from - begin), row_bytes);
      }
    }
    pending.clear();
  }

  /// Continues the checksums of an item by the bytes at `begin` of the file, which follow those before.
  void add_to(ReadItem& item, uint64_t begin, std::string_view bytes) const {
    if (item.has_checksums) {
      add_checksums(*part_of(item).checksums, item.begin, begin, bytes, item.checksums);
    }
  }

  /// Compares the chunks that the items have completely. Others are verified by an item, perhaps of another rank, that reads them again.
  void compare_checksums() const {
    struct Joined {
      uint32_t checksum = 0;
      uint64_t bytes = 0;
    };
    // The items are in the order of the file, so those of a chunk follow each other.
    std::map<std::tuple<size_t, size_t, bool, uint64_t>, Joined> chunks;
    for (const auto& item : items_) {
      if (!item.has_checksums) {
        continue;
      }
      const auto& checksums = *part_of(item).checksums;
      const bool is_verification = item.kind == ReadItem::Kind::Verification;
      const auto* next = item.checksums.data();
      for_each_chunk(checksums, item.begin, item.begin + item.bytes, [&](uint64_t number, uint64_t from, uint64_t to) {
        auto& joined = chunks[{item.target, item.box.part, is_verification, number}];
        joined.checksum = joined_crc32c(joined.checksum, *next++, to - from);
        joined.bytes += to - from;
        const auto chunk_begin = number * checksums.chunk_bytes;
        if (joined.bytes == std::min(checksums.chunk_bytes, checksums.bytes - chunk_begin)) {
          check_checksum(item, checksums.values[number], joined.checksum);
        }
      });
    }
  }

  void check_checksum(const ReadItem& item, uint32_t expected, uint32_t checksum) const {
    TORCH_CHECK_VALUE(
        checksum == expected, "[", settings_.where, "] ", stored_.path_of(part_of(item).file), ": tensor '",
        targets_[item.target].name, "' must have the checksum ", checksum_text(expected), ", but it has ",
        checksum_text(checksum), ". The file was damaged; load another checkpoint.");
  }

  const StoredTensors& stored_;
  c10::ArrayRef<ReadTarget> targets_;
  const ReadSettings& settings_;
  OpenFiles files_;
  std::vector<ReadItem> items_;
  ReadReport report_;
  std::atomic<uint64_t> read_bytes_ = 0;
};

} // namespace

ReadReport read_tensors(const StoredTensors& stored, c10::ArrayRef<ReadTarget> targets, const ReadSettings& settings) {
  return TensorReader(stored, targets, settings).run();
}

} // namespace weft
