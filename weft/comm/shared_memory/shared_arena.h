#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace weft {

class SharedArena;

/// A range of this process's shared memory. Its address is a multiple of 4 KB.
class SharedBlock {
 public:
  SharedBlock(SharedArena& arena, int64_t offset, int size_class)
      : arena_(arena), offset_(offset), size_class_(size_class) {}
  ~SharedBlock();
  SharedBlock(const SharedBlock&) = delete;
  SharedBlock& operator=(const SharedBlock&) = delete;

  char* data() const;
  /// Where other processes find it in this process's shared memory.
  int64_t offset() const {
    return offset_;
  }

 private:
  SharedArena& arena_;
  int64_t offset_;
  int size_class_;
};

/// The memory that this process shares with the other processes of its host: an anonymous file, mapped once, that other
/// processes open by the process's id and the file's descriptor. It has no name, therefore the system frees it with the
/// last process that maps it, however that ends. A child made by fork neither maps it nor keeps it.
class SharedArena {
 public:
  /// Of this process, made by the first call. nullptr where the system does not allow it.
  static SharedArena* own();

  int descriptor() const {
    return descriptor_;
  }
  /// The first bytes of the arena; other processes compare them with what they were told.
  uint64_t nonce() const {
    return *reinterpret_cast<const uint64_t*>(base_);
  }

  /// At least so many bytes with any content, or nullptr if the address range is used up. A block that was given back is
  /// taken again, because memory that has been used causes no page faults.
  std::shared_ptr<SharedBlock> take(int64_t bytes);
  /// The same, filled with zeros.
  std::shared_ptr<SharedBlock> take_zeroed(int64_t bytes);

  /// The bytes of blocks that were given back and still hold memory.
  int64_t kept_bytes() const;
  /// The bytes of the addresses that were ever taken.
  int64_t used_range() const;

  /// The size of the mapping. Pages take memory from their first use on.
  static constexpr int64_t kMappedBytes = int64_t{1} << 37;
  /// Blocks that are given back beyond this hold no memory.
  static constexpr int64_t kMostKeptBytes = int64_t{256} << 20;

 private:
  friend class SharedBlock;

  SharedArena() = default;
  static SharedArena* make();
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();
  void give_back(int64_t offset, int size_class);
  void free_pages(int64_t offset, int size_class) const;

  char* base_ = nullptr;
  int descriptor_ = -1;
  mutable std::mutex mutex_;
  int64_t end_ = 0; // of the blocks that were ever taken
  int64_t kept_bytes_ = 0;
  struct Free {
    int64_t offset;
    bool holds_memory;
  };
  std::array<std::deque<Free>, 48> free_; // by size class: the binary logarithm of the size
};

} // namespace weft
