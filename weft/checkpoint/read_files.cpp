#include "weft/checkpoint/read_files.h"

#include "weft/files/crc32c.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

namespace weft {

namespace {

constexpr uint64_t kReadPiece = 8 << 20;    // of one work item
constexpr uint64_t kScratchBytes = 4 << 20; // of one that is converted, and of rows that are read together
constexpr uint64_t kReadStep = 512 << 10;   // stay in the cache between reading and the checksum
constexpr uint64_t kSmallRow = 4096;        // below this, a call per row costs more than the bytes between the rows

/// The files of a call, each opened when it is first read.
class OpenFiles {
 public:
  OpenFiles(const StoredTensors& stored, const char* where)
      : stored_(stored), where_(where), descriptors_(stored.files.size(), -1) {}
  ~OpenFiles() {
    for (const auto descriptor : descriptors_) {
      if (descriptor >= 0) {
        ::close(descriptor);
      }
    }
  }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  int descriptor(size_t file) {
    const std::lock_guard lock(mutex_);
    auto& descriptor = descriptors_[file];
    if (descriptor < 0) {
      const auto path = stored_.path_of(file);
      descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      TORCH_CHECK_VALUE(descriptor >= 0, "[", where_, "] ", path, ": cannot be opened: ", std::strerror(errno), ".");
      struct stat status = {};
      const auto expected = stored_.files[file].bytes;
      TORCH_CHECK_VALUE(
          ::fstat(descriptor, &status) == 0 && static_cast<uint64_t>(status.st_size) == expected, "[", where_, "] ",
          path, ": a file of ", expected, " bytes is required, but it has ", status.st_size,
          ". It was truncated, or replaced by another one.");
    }
    return descriptor;
  }

  void read(size_t file, uint64_t begin, char* to, uint64_t bytes) {
    const auto from = descriptor(file);
    while (bytes > 0) {
      const auto got = ::pread(from, to, bytes, static_cast<off_t>(begin));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      TORCH_CHECK_VALUE(
          got > 0, "[", where_, "] ", stored_.path_of(file), ": ", bytes, " bytes at ", begin, " are required, but ",
          got == 0 ? "it ends before." : c10::str("reading failed: ", std::strerror(errno), "."));
      begin += static_cast<uint64_t>(got);
      to += got;
      bytes -= static_cast<uint64_t>(got);
    }
  }

 private:
  const StoredTensors& stored_;
  const char* where_;
  std::mutex mutex_;
  std::vector<int> descriptors_;
};

/// A box of a tensor that one thread reads at once, or a range of a part that is read for its checksum alone.
struct FilePiece {
  size_t target;
  ReadBox box;
  uint64_t file_bytes; // of the elements
  bool is_checked;     // consecutive bytes of a part that is read completely
  bool is_verification;
  uint32_t checksum = 0;
};

uint64_t bytes_of(const ReadBox& box, uint64_t element_bytes) {
  return std::accumulate(box.sizes.begin(), box.sizes.end(), element_bytes, [](uint64_t a, int64_t b) {
    return a * static_cast<uint64_t>(b);
  });
}

/// Divides a box along its outermost dims in the file, until no box has more than `limit` bytes.
void divide(const ReadBox& box, uint64_t element_bytes, uint64_t limit, std::vector<ReadBox>& result) {
  const auto bytes = bytes_of(box, element_bytes);
  if (bytes <= limit) {
    if (bytes > 0) {
      result.push_back(box);
    }
    return;
  }
  size_t outermost = 0;
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    if (box.sizes[d] > 1 && (box.sizes[outermost] <= 1 || box.strides[d] > box.strides[outermost])) {
      outermost = d;
    }
  }
  const auto size = box.sizes[outermost];
  const auto of_one = bytes / static_cast<uint64_t>(size);
  const auto step = std::max<int64_t>(1, static_cast<int64_t>(limit / std::max<uint64_t>(of_one, 1)));
  for (int64_t from = 0; from < size; from += step) {
    auto next = box;
    next.begin += static_cast<uint64_t>(from * box.strides[outermost]) * element_bytes;
    next.sizes[outermost] = std::min(step, size - from);
    next.target_offset[outermost] += from;
    divide(next, element_bytes, limit, result);
  }
}

at::Tensor narrowed(at::Tensor local, const ReadBox& box) {
  for (size_t d = 0; d < box.sizes.size(); ++d) {
    local = local.narrow(static_cast<int64_t>(d), box.target_offset[d], box.sizes[d]);
  }
  return local;
}

/// Strides that a tensor of the box's shape has if its dims follow each other in memory as they do in the file.
c10::DimVector packed_strides(const ReadBox& box) {
  std::vector<size_t> order(box.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return box.strides[a] > box.strides[b]; });
  c10::DimVector strides(box.sizes.size());
  int64_t next = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    strides[*d] = next;
    next *= box.sizes[*d];
  }
  return strides;
}

/// Whether the elements go to the local tensor without a tensor in between.
bool is_direct(const ReadBox& box, const at::Tensor& local, c10::ScalarType dtype) {
  // A bool byte other than 0 and 1 would be undefined behaviour, so these are converted.
  if (!local.device().is_cpu() || local.scalar_type() != dtype || dtype == at::kBool || local.is_conj() ||
      local.is_neg()) {
    return false;
  }
  const auto element_bytes = c10::elementSize(dtype);
  return byte_rows(box, local.strides(), element_bytes).row_bytes >=
      byte_rows(box, packed_strides(box), element_bytes).row_bytes;
}

class TensorReader {
 public:
  TensorReader(const StoredTensors& stored, c10::ArrayRef<ReadTarget> targets, const ReadSettings& settings)
      : stored_(stored), targets_(targets), settings_(settings), files_(stored, settings.where) {}

  ReadReport run() {
    for (size_t t = 0; t < targets_.size(); ++t) {
      plan(t);
    }
    std::stable_sort(pieces_.begin(), pieces_.end(), [&](const FilePiece& a, const FilePiece& b) {
      return std::pair(part_of(a).file, a.box.begin) < std::pair(part_of(b).file, b.box.begin);
    });
    run_pieces();
    verify_parts();
    report_.read_bytes = read_bytes_;
    return report_;
  }

 private:
  const StoredPart& part_of(const FilePiece& piece) const {
    return targets_[piece.target].stored->parts[piece.box.part];
  }

  void plan(size_t t) {
    const auto& target = targets_[t];
    const auto element_bytes = c10::elementSize(target.stored->dtype);
    std::map<size_t, uint64_t> consecutive_bytes; // per part
    std::map<size_t, std::vector<FilePiece>> of_parts;
    uint64_t wanted = 0;
    for (const auto& box : plan_reads(*target.stored, target.wanted)) {
      const auto direct = is_direct(box, target.local, target.stored->dtype);
      std::vector<ReadBox> divided;
      divide(box, element_bytes, direct ? kReadPiece : kScratchBytes, divided);
      auto& pieces = of_parts[box.part];
      for (auto& each : divided) {
        const auto bytes = bytes_of(each, element_bytes);
        const bool is_consecutive = byte_rows(each, packed_strides(each), element_bytes).dims.empty();
        consecutive_bytes[each.part] += is_consecutive ? bytes : 0;
        wanted += bytes;
        pieces.push_back({t, std::move(each), bytes, is_consecutive, false});
      }
    }
    check_complete(target, wanted);
    report_.wanted_bytes += wanted;
    for (auto& [p, pieces] : of_parts) {
      const auto& part = target.stored->parts[p];
      const auto part_bytes = static_cast<uint64_t>(block_numel(part.index)) * element_bytes;
      const bool is_verified = settings_.verify && part.checksum.has_value() && part_bytes > 0;
      const bool is_read_completely = consecutive_bytes[p] == part_bytes;
      for (auto& piece : pieces) {
        piece.is_checked = is_verified && is_read_completely;
        pieces_.push_back(std::move(piece));
      }
      if (is_verified && !is_read_completely && static_cast<int64_t>(p) % target.sharers == target.sharer) {
        add_verification(t, p, part_bytes);
      }
    }
  }

  void check_complete(const ReadTarget& target, uint64_t bytes) const {
    const auto expected = static_cast<uint64_t>(block_numel(target.wanted)) * c10::elementSize(target.stored->dtype);
    TORCH_CHECK_VALUE(
        bytes == expected, "[", settings_.where, "] '", target.name, "': the files in ", stored_.folder, " must have ",
        expected, " bytes of it, but they have ", bytes, ".");
  }

  void add_verification(size_t t, size_t p, uint64_t part_bytes) {
    const auto begin = targets_[t].stored->parts[p].begin;
    for (uint64_t from = 0; from < part_bytes; from += kReadPiece) {
      const auto bytes = std::min(kReadPiece, part_bytes - from);
      ReadBox range{.part = p, .begin = begin + from, .sizes = {}, .strides = {}, .target_offset = {}};
      pieces_.push_back({t, std::move(range), bytes, true, true});
      report_.verified_bytes += bytes;
    }
  }

  void run_pieces() {
    if (pieces_.empty()) {
      return;
    }
    auto count = settings_.threads > 0 ? static_cast<size_t>(settings_.threads)
                                       : std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 4);
    count = std::min(count, pieces_.size());
    std::atomic<size_t> next = 0;
    std::atomic<bool> has_failed = false;
    std::exception_ptr error;
    std::mutex mutex;
    const auto work = [&] {
      try {
        std::vector<char> scratch;
        for (auto i = next++; i < pieces_.size() && !has_failed; i = next++) {
          run_piece(pieces_[i], scratch);
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = error ? error : std::current_exception();
        has_failed = true;
      }
    };
    std::vector<std::thread> threads;
    for (size_t i = 1; i < count; ++i) {
      threads.emplace_back(work);
    }
    work();
    for (auto& thread : threads) {
      thread.join();
    }
    if (error) {
      std::rethrow_exception(error);
    }
  }

  void run_piece(FilePiece& piece, std::vector<char>& scratch) {
    const auto file = part_of(piece).file;
    if (piece.is_verification) {
      scratch.resize(std::max<size_t>(scratch.size(), kReadStep));
      for (uint64_t from = 0; from < piece.file_bytes; from += kReadStep) {
        const auto bytes = std::min(kReadStep, piece.file_bytes - from);
        files_.read(file, piece.box.begin + from, scratch.data(), bytes);
        piece.checksum = crc32c({scratch.data(), bytes}, piece.checksum);
      }
      return;
    }
    const auto& target = targets_[piece.target];
    const auto dtype = target.stored->dtype;
    const c10::InferenceMode inference(target.local.is_inference());
    const c10::NoGradGuard no_grad;
    const auto local = narrowed(target.local, piece.box);
    if (is_direct(piece.box, target.local, dtype)) {
      read_rows(piece, file, local.strides(), static_cast<char*>(local.mutable_data_ptr()), scratch);
      return;
    }
    const auto strides = packed_strides(piece.box);
    const auto options = at::TensorOptions(dtype == at::kBool ? at::kByte : dtype).device(at::kCPU);
    const auto packed = at::empty_strided(piece.box.sizes, strides, options.requires_grad(false));
    read_rows(piece, file, strides, static_cast<char*>(packed.mutable_data_ptr()), scratch);
    local.copy_(dtype == at::kBool ? packed.ne(0) : packed);
  }

  /// Reads the rows of a box to `to`. Rows that are consecutive or close to each other are read by one call.
  void read_rows(FilePiece& piece, size_t file, c10::IntArrayRef target_strides, char* to, std::vector<char>& scratch) {
    const auto rows = byte_rows(piece.box, target_strides, c10::elementSize(targets_[piece.target].stored->dtype));
    if (rows.dims.empty()) {
      for (uint64_t from = 0; from < rows.row_bytes; from += kReadStep) {
        const auto bytes = piece.is_checked ? std::min(kReadStep, rows.row_bytes - from) : rows.row_bytes;
        files_.read(file, piece.box.begin + from, to + from, bytes);
        if (!piece.is_checked) {
          break;
        }
        piece.checksum = crc32c({to + from, bytes}, piece.checksum);
      }
      read_bytes_ += rows.row_bytes;
      return;
    }
    PendingRows pending;
    c10::DimVector at(rows.dims.size(), 0);
    while (true) {
      uint64_t from = piece.box.begin;
      int64_t target = 0;
      for (size_t d = 0; d < at.size(); ++d) {
        from += static_cast<uint64_t>(at[d] * rows.dims[d].file_stride);
        target += at[d] * rows.dims[d].target_stride;
      }
      const auto end = pending.empty() ? 0 : pending.back().first + rows.row_bytes;
      const bool joins = !pending.empty() && rows.row_bytes < kSmallRow && from >= end &&
          from - end <= rows.row_bytes && from + rows.row_bytes - pending.front().first <= kScratchBytes;
      if (!joins) {
        flush(pending, file, rows.row_bytes, scratch);
      }
      pending.emplace_back(from, to + target);
      size_t d = at.size();
      while (d > 0 && ++at[d - 1] == rows.dims[d - 1].count) {
        at[--d] = 0;
      }
      if (d == 0) {
        break;
      }
    }
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

  void verify_parts() const {
    // They are in the order of the file, so those of a part follow each other.
    std::map<std::pair<size_t, size_t>, uint32_t> checksums;
    for (const auto& piece : pieces_) {
      if (piece.is_checked) {
        const auto [found, is_new] = checksums.try_emplace({piece.target, piece.box.part}, piece.checksum);
        found->second = is_new ? piece.checksum : joined_crc32c(found->second, piece.checksum, piece.file_bytes);
      }
    }
    for (const auto& [key, checksum] : checksums) {
      const auto& target = targets_[key.first];
      const auto& part = target.stored->parts[key.second];
      TORCH_CHECK_VALUE(
          checksum == *part.checksum, "[", settings_.where, "] ", stored_.path_of(part.file), ": tensor '", target.name,
          "' must have the checksum ", crc32c_text(*part.checksum), ", but it has ", crc32c_text(checksum),
          ". The file was damaged; load another checkpoint.");
    }
  }

  const StoredTensors& stored_;
  c10::ArrayRef<ReadTarget> targets_;
  const ReadSettings& settings_;
  OpenFiles files_;
  std::vector<FilePiece> pieces_;
  ReadReport report_;
  std::atomic<uint64_t> read_bytes_ = 0;
};

} // namespace

ReadReport read_tensors(const StoredTensors& stored, c10::ArrayRef<ReadTarget> targets, const ReadSettings& settings) {
  return TensorReader(stored, targets, settings).run();
}

} // namespace weft
