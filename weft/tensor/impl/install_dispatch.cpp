#include "weft/tensor/impl/install_dispatch.h"

namespace weft {

namespace {

void (*install_kernels)() = nullptr;
void (*look_for_operators)() = nullptr;

} // namespace

DispatchInstaller::DispatchInstaller(void (*install)(), void (*adopt_new)()) {
  install_kernels = install;
  look_for_operators = adopt_new;
}

void install_dispatch() {
  static const bool is_installed = (install_kernels(), true);
  static_cast<void>(is_installed);
  look_for_operators();
}

} // namespace weft
