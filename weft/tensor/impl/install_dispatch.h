#pragma once

namespace weft {

/// Makes every ATen operator take distributed tensors. Whatever makes the first one calls it; safe to call again.
void install_dispatch();

/// Says what installs the kernels, as the library is loaded: they stand in layers above this one.
struct DispatchInstaller {
  explicit DispatchInstaller(void (*install)());
};

} // namespace weft
