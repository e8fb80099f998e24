#include "weft/files/mapped_range.h"

#include <c10/util/Exception.h>

#include <csignal>
#include <mutex>
#include <utility>

#include <sys/mman.h>

namespace weft {

namespace {

thread_local MappedRange* last_of_thread = nullptr;

struct sigaction previous = {};

/// Lets the instruction that failed go on with zeros. Signals of all other memory go to who took them before.
void on_bus_error(int signal, siginfo_t* info, void* context) {
  if (info->si_code > 0 && MappedRange::replace_by_zeros(info->si_addr)) {
    return;
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    ::sigaction(SIGBUS, &previous, nullptr);
    ::raise(SIGBUS);
  }
}

void take_bus_errors() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    TORCH_INTERNAL_ASSERT(::sigaction(SIGBUS, &action, &previous) == 0);
  });
}

} // namespace

MappedRange::MappedRange() : before_(std::exchange(last_of_thread, this)) {
  take_bus_errors();
}

MappedRange::~MappedRange() {
  unmap();
  TORCH_INTERNAL_ASSERT_DEBUG_ONLY(last_of_thread == this);
  last_of_thread = before_;
}

bool MappedRange::map(int file, uint64_t begin, uint64_t end) {
  unmap();
  auto* data = ::mmap(nullptr, end - begin, PROT_READ, MAP_SHARED, file, static_cast<off_t>(begin));
  if (data == MAP_FAILED) {
    return false;
  }
  ::madvise(data, end - begin, MADV_SEQUENTIAL); // reads ahead what is not in the page cache
  data_ = static_cast<char*>(data);
  begin_ = begin;
  end_ = end;
  is_intact_ = true;
  return true;
}

void MappedRange::unmap() {
  if (data_ != nullptr) {
    ::munmap(data_, end_ - begin_);
  }
  data_ = nullptr;
  begin_ = end_ = 0;
}

bool MappedRange::replace_by_zeros(const void* address) {
  for (auto* range = last_of_thread; range != nullptr; range = range->before_) {
    const auto bytes = range->end_ - range->begin_;
    if (range->data_ <= address && address < range->data_ + bytes) {
      range->is_intact_ = false;
      return ::mmap(range->data_, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
  }
  return false;
}

} // namespace weft
