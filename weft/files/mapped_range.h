#pragma once

#include <atomic>
#include <cstdint>

namespace weft {

/// A range of a file as memory, for the thread that made it. Reading mapped bytes that the file has no longer, or that the disk cannot
/// read, would end the program by the signal SIGBUS. Of this range such bytes are zero, and it is no longer intact, which is to
/// be asked after reading.
///
///   MappedRange range;
///   if (range.map(file, 0, size)) {
///     std::memcpy(to, range.at(0), size);
///     check(range.is_intact());
///   }
class MappedRange {
 public:
  MappedRange();
  ~MappedRange();
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;

  /// Maps the bytes from `begin`, at which a page must begin, to `end` in place of what was mapped before. False for files that cannot
  /// be mapped, as on some file systems.
  bool map(int file, uint64_t begin, uint64_t end);
  void unmap();

  bool contains(uint64_t begin, uint64_t end) const {
    return begin_ <= begin && end <= end_;
  }
  /// The byte at a position of the file.
  const char* at(uint64_t position) const {
    return data_ + (position - begin_);
  }
  bool is_intact() const {
    std::atomic_signal_fence(std::memory_order_seq_cst); // after all that was read before
    return is_intact_;
  }

  /// Replaces the memory by zeros if the address is in one of the ranges of this thread. For a handler of signals.
  static bool replace_by_zeros(const void* address);

 private:
  char* data_ = nullptr;
  uint64_t begin_ = 0; // in the file
  uint64_t end_ = 0;
  volatile bool is_intact_ = true; // changes within an instruction that reads the memory
  MappedRange* before_;            // of this thread
};

} // namespace weft
