#pragma once

#include "weft/tensor/impl/fast_tls.h"

#include <c10/macros/Macros.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace weft {

/// Memory for objects of `size` bytes. Each thread keeps that of the last objects that it has destroyed, up to a number,
/// for the next ones that it makes.
///
///   KeptMemory<64>::give_back(p);
///   KeptMemory<64>::take();   // p
template <size_t size>
class KeptMemory {
 public:
  C10_ALWAYS_INLINE static void* take() {
    auto& kept = kept_;
    if (C10_UNLIKELY(kept.first == nullptr)) {
      return ::operator new(size);
    }
    --kept.count;
    return std::exchange(kept.first, kept.first->next);
  }
  C10_ALWAYS_INLINE static void give_back(void* memory) noexcept {
    auto& kept = kept_;
    if (C10_UNLIKELY(kept.count == kept.most) && !begins()) {
      ::operator delete(memory);
      return;
    }
    ++kept.count;
    kept.first = new (memory) Free{kept.first};
  }

 private:
  struct Free {
    Free* next;
  };
  struct Kept {
    Free* first = nullptr;
    uint32_t count = 0;
    uint32_t most = 0; // 0 before the thread gives anything back, and when it ends
    bool has_ended = false;
  };
  struct AtThreadEnd {
    ~AtThreadEnd() {
      auto* next = kept_.first;
      kept_ = {.has_ended = true};
      while (next != nullptr) {
        ::operator delete(std::exchange(next, next->next));
      }
    }
  };
  static_assert(size >= sizeof(Free));

  /// Whether this is the first time that the thread gives memory back.
  C10_NOINLINE static bool begins() noexcept {
    if (kMost == 0 || kept_.most != 0 || kept_.has_ended) {
      return false;
    }
    thread_local const AtThreadEnd at_end;
    kept_.most = kMost;
    return true;
  }

#if C10_ASAN_ENABLED
  static constexpr uint32_t kMost = 0; // so that the sanitizer sees a use of a destroyed object
#else
  static constexpr uint32_t kMost = 64;
#endif
  static inline constinit thread_local Kept kept_ WEFT_FAST_TLS;
};

} // namespace weft
