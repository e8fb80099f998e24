#pragma once

namespace weft {

/// Registers the kernels of ATen's operators for distributed tensors. Every function that makes a distributed tensor
/// calls it first; later calls do nothing.
void install_dispatch();

/// Sets the function that registers the kernels, when the library is loaded. They are in layers above this one, which
/// therefore cannot name that function.
struct DispatchInstaller {
  explicit DispatchInstaller(void (*install)());
};

} // namespace weft
