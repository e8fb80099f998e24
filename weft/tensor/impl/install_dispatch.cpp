#include "weft/tensor/impl/install_dispatch.h"

#include <mutex>

namespace weft {

namespace {

void (*install_kernels)() = nullptr;

} // namespace

DispatchInstaller::DispatchInstaller(void (*install)()) {
  install_kernels = install;
}

void install_dispatch() {
  static std::once_flag once;
  std::call_once(once, install_kernels);
}

} // namespace weft
