#pragma once

namespace weft {

/// Registers the kernels of ATen's operators for distributed tensors. Every function that makes a distributed tensor
/// calls it first; later calls look only for operators that were defined since.
void install_dispatch();

/// Sets the functions that register the kernels and that look for new operators, when the library is loaded. They are
/// in layers above this one, which therefore cannot name them.
struct DispatchInstaller {
  DispatchInstaller(void (*install)(), void (*adopt_new)());
};

} // namespace weft
