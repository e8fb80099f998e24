#include "weft/checkpoint/read_files.h"

#include "weft/checkpoint/read_rows.h"
#include "weft/core/checksum_text.h"
#include "weft/files/crc32c.h"
#include "weft/files/share_work.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <span>
#include <thread>
#include <tuple>

namespace weft {

namespace {

constexpr uint64_t kBatchBytes = 4 << 20; // of a file, in which one thread reads all items

at::Tensor narrowed(at::Tensor local, const ReadBox& box) {
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    local = local.narrow(static_cast<int64_t>(d), box.target_offset[d], box.sizes[d]);
  }
  return local;
}

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
      read_chunks(files_, part_of(item).file, item, memory);
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

  /// Reads the elements of an item to `to`, where they have these strides.
  void read_box(ReadItem& item, c10::IntArrayRef strides, char* to, ThreadMemory& memory) {
    const auto file = part_of(item).file;
    if (item.kind == ReadItem::Kind::Rows) {
      const auto rows = byte_rows(item.box, strides, c10::elementSize(targets_[item.target].stored->dtype));
      read_bytes_ += read_rows(files_, file, item, rows, to, memory);
      return;
    }
    read_bytes_ += item.bytes;
    const auto step = item.chunks.empty() ? item.bytes : kReadStep;
    size_t chunk = 0;
    for (uint64_t from = 0; from < item.bytes; from += step) {
      const auto bytes = std::min(step, item.bytes - from);
      files_.read(file, item.begin + from, to + from, bytes);
      chunk = add_to_checksums(item, chunk, item.begin + from, {to + from, bytes});
    }
  }

  /// Continues the checksums of chunks by bytes of the file that follow those before. Returns the chunk that goes on.
  static size_t add_to_checksums(ReadItem& item, size_t next, uint64_t begin, std::string_view bytes) {
    const auto end = begin + bytes.size();
    for (; next < item.chunks.size() && item.chunks[next].begin < end; ++next) {
      auto& chunk = item.chunks[next];
      const auto from = std::max(begin, chunk.begin);
      chunk.checksum = crc32c(bytes.substr(from - begin, std::min(end, chunk.end) - from), chunk.checksum);
      if (chunk.end > end) {
        break;
      }
    }
    return next;
  }

  void compare_checksums() const {
    struct Joined {
      uint32_t checksum = 0;
      uint64_t bytes = 0;
    };
    // Of chunks that several items have bytes of, which follow each other, since the items are in the order of the file.
    std::map<std::tuple<size_t, size_t, uint64_t>, Joined> chunks;
    for (const auto& item : items_) {
      const auto* checksums = part_of(item).checksums.get();
      for (const auto& chunk : item.chunks) {
        const auto required =
            std::min(checksums->chunk_bytes, checksums->bytes - chunk.number * checksums->chunk_bytes);
        const auto bytes = chunk.end - chunk.begin;
        if (bytes == required) {
          check_checksum(item, checksums->values[chunk.number], chunk.checksum);
          continue;
        }
        auto& joined = chunks[{item.target, item.box.part, chunk.number}];
        joined.checksum = joined_crc32c(joined.checksum, chunk.checksum, bytes);
        joined.bytes += bytes;
        if (joined.bytes == required) {
          check_checksum(item, checksums->values[chunk.number], joined.checksum);
        }
      }
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
