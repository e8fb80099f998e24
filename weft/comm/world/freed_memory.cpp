#include "weft/comm/world/freed_memory.h"

#include <cstdlib>

namespace weft {

void keep_freed_memory() {
  // The largest block that glibc learns from, with its header. One page of it is touched. Volatile, because a compiler may leave
  // out an allocation that it sees unused.
  constexpr size_t kLargest = (size_t{32} << 20) - (size_t{64} << 10);
  void* const volatile block = std::malloc(kLargest);
  std::free(block);
}

} // namespace weft
