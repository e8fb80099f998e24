#include "weft/comm/shared_memory/shared_arena.h"

#include <algorithm>
#include <bit>
#include <random>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace weft {

namespace {

constexpr int kSmallestClass = 12; // a page

int size_class_of(int64_t bytes) {
  return std::max(kSmallestClass, static_cast<int>(std::bit_width(static_cast<uint64_t>(bytes - 1))));
}

std::mutex& arena_mutex() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}

SharedArena* own_arena = nullptr;
bool own_arena_was_tried = false;

} // namespace

SharedBlock::~SharedBlock() {
  arena_.give_back(offset_, size_class_);
}

char* SharedBlock::data() const {
  return arena_.base_ + offset_;
}

SharedArena* SharedArena::own() {
  const std::lock_guard lock(arena_mutex());
  if (!own_arena_was_tried) {
    own_arena_was_tried = true;
    own_arena = make();
  }
  return own_arena;
}

SharedArena* SharedArena::make() {
  // Beyond the limit of file sizes, ftruncate would end the process by a signal.
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < static_cast<rlim_t>(kMappedBytes)) {
    return nullptr;
  }
  const int descriptor = memfd_create("weft", MFD_CLOEXEC);
  if (descriptor < 0) {
    return nullptr;
  }
  void* base = MAP_FAILED;
  if (ftruncate(descriptor, kMappedBytes) == 0) {
    base = mmap(nullptr, kMappedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  }
  if (base == MAP_FAILED) {
    close(descriptor);
    return nullptr;
  }
  madvise(base, kMappedBytes, MADV_DONTFORK);
  madvise(base, kMappedBytes, MADV_DONTDUMP);
  // Never destroyed: blocks may be given back while the process exits.
  auto* const arena = new SharedArena();
  arena->base_ = static_cast<char*>(base);
  arena->descriptor_ = descriptor;
  std::random_device random;
  *reinterpret_cast<uint64_t*>(arena->base_) = static_cast<uint64_t>(random()) << 32 | random();
  arena->end_ = int64_t{1} << kSmallestClass;
  static const bool registered =
      pthread_atfork(
          &SharedArena::before_fork, &SharedArena::after_fork_in_parent, &SharedArena::after_fork_in_child) == 0;
  (void)registered;
  return arena;
}

/// Takes the locks, since a child would wait forever for one that another thread of its parent held.
void SharedArena::before_fork() {
  arena_mutex().lock();
  if (own_arena != nullptr) {
    own_arena->mutex_.lock();
  }
}

void SharedArena::after_fork_in_parent() {
  if (own_arena != nullptr) {
    own_arena->mutex_.unlock();
  }
  arena_mutex().unlock();
}

/// A child made by fork does not have the mapping. Its own world, if it makes one, gets an arena of its own.
void SharedArena::after_fork_in_child() {
  if (own_arena != nullptr) {
    own_arena->mutex_.unlock();
    close(own_arena->descriptor_);
  }
  own_arena = nullptr;
  own_arena_was_tried = false;
  arena_mutex().unlock();
}

std::shared_ptr<SharedBlock> SharedArena::take(int64_t bytes) {
  const int size_class = size_class_of(bytes);
  const std::lock_guard lock(mutex_);
  auto& free = free_.at(size_class);
  int64_t offset = end_;
  if (!free.empty()) {
    offset = free.front().offset;
    kept_bytes_ -= free.front().holds_memory ? int64_t{1} << size_class : 0;
    free.pop_front();
  } else if (kMappedBytes - end_ < (int64_t{1} << size_class)) {
    return nullptr;
  } else {
    end_ += int64_t{1} << size_class;
  }
  return std::make_shared<SharedBlock>(*this, offset, size_class);
}

std::shared_ptr<SharedBlock> SharedArena::take_zeroed(int64_t bytes) {
  auto block = take(bytes);
  if (block) {
    free_pages(block->offset(), size_class_of(bytes));
  }
  return block;
}

void SharedArena::free_pages(int64_t offset, int size_class) const {
  fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, int64_t{1} << size_class);
}

void SharedArena::give_back(int64_t offset, int size_class) {
  {
    const std::lock_guard lock(arena_mutex());
    if (own_arena != this) {
      return; // a child made by fork releases what its parent holds
    }
  }
  const int64_t bytes = int64_t{1} << size_class;
  const std::lock_guard lock(mutex_);
  if (kept_bytes_ + bytes <= kMostKeptBytes) {
    kept_bytes_ += bytes;
    free_.at(size_class).push_front({offset, true});
  } else {
    free_pages(offset, size_class);
    free_.at(size_class).push_back({offset, false});
  }
}

int64_t SharedArena::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

int64_t SharedArena::used_range() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

} // namespace weft
