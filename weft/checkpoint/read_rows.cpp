#include "weft/checkpoint/read_rows.h"

#include "weft/files/crc32c.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

namespace weft {

namespace {

/// Whether rows are copied from mapped pages, as they are, because a call for each takes several times longer: where they are short, and
/// half of the pages between them are wanted anyway, since all of these are read.
bool are_close(const ByteRows& rows) {
  constexpr int64_t kShort = 64 << 10;
  constexpr int64_t kPage = 4 << 10;
  if (rows.dims.empty()) {
    return false;
  }
  const auto stride = rows.dims.back().file_stride;
  return stride < kShort && stride <= 2 * (static_cast<int64_t>(rows.row_bytes) + kPage);
}

/// Calls `fn` with the place in the file of the first row of every index of all dims but the last one, and with its place in the target.
template <class Fn>
void for_each_run(uint64_t begin, const ByteRows& rows, const Fn& fn) {
  c10::DimVector at(rows.dims.empty() ? 0 : rows.dims.size() - 1, 0);
  while (true) {
    uint64_t from = begin;
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

class RowsReader {
 public:
  RowsReader(OpenFiles& files, size_t file, ReadItem& item, ThreadMemory& memory)
      : files_(files), file_(file), item_(item), memory_(memory) {}

  void read(const ByteRows& rows, char* to) {
    row_bytes_ = rows.row_bytes;
    maps_ = are_close(rows);
    const auto dim = rows.dims.empty()
        ? ByteRows::Dim{.count = 1, .file_stride = static_cast<int64_t>(row_bytes_), .target_stride = 0}
        : rows.dims.back();
    for_each_run(item_.box.begin, rows, [&](uint64_t from, int64_t target) { read_run(dim, from, to + target); });
    flush();
    read_chunks();
  }

  /// The chunks, or those that no row was read of and what follows it.
  void read_chunks() {
    while (next_ < item_.chunks.size()) {
      verify_step();
    }
  }

  uint64_t read_bytes() const {
    return read_bytes_;
  }

 private:
  /// A range of the file whose bytes are in memory, or, where `bytes` is null, are to be read.
  struct Segment {
    uint64_t begin = 0;
    uint64_t end = 0;
    const char* bytes = nullptr;
    bool is_verified = false;
  };

  /// The rows of the last dim, the first one at `from`.
  void read_run(const ByteRows::Dim& dim, uint64_t from, char* to) {
    const auto stride = static_cast<uint64_t>(dim.file_stride);
    for (int64_t i = 0; i < dim.count;) {
      const auto at = from + static_cast<uint64_t>(i) * stride;
      auto* target = to + i * dim.target_stride;
      go_to(at);
      if (at + row_bytes_ > segment_.end) {
        read_divided(at, target);
        ++i;
        continue;
      }
      const auto fitting = static_cast<int64_t>((segment_.end - at - row_bytes_) / stride) + 1;
      const auto count = std::min(dim.count - i, fitting);
      if (segment_.bytes != nullptr) {
        copy_rows(dim, count, at, target);
      } else {
        for (int64_t k = 0; k < count; ++k) {
          add_pending(at + static_cast<uint64_t>(k) * stride, target + k * dim.target_stride);
        }
      }
      i += count;
    }
  }

  void copy_rows(const ByteRows::Dim& dim, int64_t count, uint64_t at, char* to) {
    const auto* from = segment_.bytes + (at - segment_.begin);
    for (int64_t i = 0; i < count; ++i, from += dim.file_stride, to += dim.target_stride) {
      std::memcpy(to, from, row_bytes_);
    }
    read_bytes_ += segment_.is_verified ? 0 : static_cast<uint64_t>(count) * row_bytes_;
  }

  /// A row that has bytes of several segments.
  void read_divided(uint64_t at, char* to) {
    const auto end = at + row_bytes_;
    while (at < end) {
      go_to(at);
      const auto bytes = std::min(segment_.end, end) - at;
      if (segment_.bytes != nullptr) {
        std::memcpy(to, segment_.bytes + (at - segment_.begin), bytes);
      } else {
        files_.read(file_, at, to, bytes);
      }
      read_bytes_ += segment_.is_verified ? 0 : bytes;
      at += bytes;
      to += bytes;
    }
  }

  /// Makes the segment the one that has this byte. Rows are in the order of the file, so that chunks are verified in order.
  void go_to(uint64_t at) {
    TORCH_INTERNAL_ASSERT_DEBUG_ONLY(at >= segment_.begin);
    while (at >= segment_.end) {
      if (next_ < item_.chunks.size() && at >= item_.chunks[next_].begin) {
        verify_step();
      } else {
        go_between(at);
      }
    }
  }

  /// Reads the next bytes that are verified.
  void verify_step() {
    auto& chunk = item_.chunks[next_];
    const auto from = std::max(chunk.begin, segment_.is_verified ? segment_.end : 0);
    const auto end = std::min(chunk.end, from + kReadStep);
    const auto bytes = end - from;
    const auto* data = files_.mapped(memory_.window, file_, from, bytes);
    if (data == nullptr) {
      memory_.scratch.resize(std::max<size_t>(memory_.scratch.size(), bytes));
      files_.read(file_, from, memory_.scratch.data(), bytes);
      data = memory_.scratch.data();
    }
    chunk.checksum = crc32c({data, bytes}, chunk.checksum);
    next_ += end == chunk.end ? 1 : 0;
    read_bytes_ += bytes;
    segment_ = {.begin = from, .end = end, .bytes = data, .is_verified = true};
  }

  /// Goes on with bytes that are not verified, up to the next ones that are.
  void go_between(uint64_t at) {
    const auto end = next_ < item_.chunks.size() ? item_.chunks[next_].begin : item_.begin + item_.bytes;
    if (maps_) {
      const auto bytes = std::min(end - at, kReadStep);
      const auto* data = files_.mapped(memory_.window, file_, at, bytes);
      if (data != nullptr) {
        segment_ = {.begin = at, .end = at + bytes, .bytes = data};
        return;
      }
    }
    segment_ = {.begin = at, .end = end};
  }

  /// Reads a row later: by one call with others that are small and close.
  void add_pending(uint64_t at, char* to) {
    const auto end = pending_.empty() ? 0 : pending_.back().first + row_bytes_;
    const bool joins = !pending_.empty() && row_bytes_ < kSmallRow && at >= end && at - end <= row_bytes_ &&
        at + row_bytes_ - pending_.front().first <= kScratchBytes;
    if (!joins) {
      flush();
    }
    pending_.emplace_back(at, to);
  }

  void flush() {
    if (pending_.empty()) {
      return;
    }
    const auto begin = pending_.front().first;
    const auto bytes = pending_.back().first + row_bytes_ - begin;
    read_bytes_ += bytes;
    if (pending_.size() == 1) {
      files_.read(file_, begin, pending_.front().second, bytes);
    } else {
      auto& scratch = memory_.scratch;
      scratch.resize(std::max<size_t>(scratch.size(), bytes));
      files_.read(file_, begin, scratch.data(), bytes);
      for (const auto& [from, to] : pending_) {
        std::memcpy(to, scratch.data() + (from - begin), row_bytes_);
      }
    }
    pending_.clear();
  }

  OpenFiles& files_;
  size_t file_;
  ReadItem& item_;
  ThreadMemory& memory_;
  uint64_t row_bytes_ = 0;
  bool maps_ = false;
  Segment segment_ = {};
  size_t next_ = 0;                                      // chunk that is not yet verified
  std::vector<std::pair<uint64_t, char*>> pending_ = {}; // places of rows in the file and in memory
  uint64_t read_bytes_ = 0;
};

} // namespace

uint64_t read_rows(
    OpenFiles& files,
    size_t file,
    ReadItem& item,
    const ByteRows& rows,
    char* to,
    ThreadMemory& memory) {
  RowsReader reader(files, file, item, memory);
  reader.read(rows, to);
  return reader.read_bytes();
}

void read_chunks(OpenFiles& files, size_t file, ReadItem& item, ThreadMemory& memory) {
  RowsReader(files, file, item, memory).read_chunks();
}

} // namespace weft
