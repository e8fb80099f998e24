#pragma once

#include <c10/core/Device.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <vector>

namespace weft::measure {

/// Operators that are called during its lifetime are not recorded by autograd, not autocast, and not seen by modes.
class PlainOperators {
 private:
  c10::impl::ExcludeDispatchKeyGuard plain_{
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::python_ks};
};

/// Waits for the work on the device's current stream.
inline void synchronize(c10::Device device) {
  if (device.type() != c10::kCPU) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.getStream(guard.getDevice()).synchronize();
  }
}

/// Seconds that `fn` takes, on the device too.
template <class Fn>
double seconds_of(c10::Device device, Fn&& fn) {
  synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  fn();
  synchronize(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The least of this many measured times, because disturbances only make a machine slower.
template <class Fn>
double least_seconds(c10::Device device, int64_t times, Fn&& fn) {
  auto least = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < times; ++i) {
    least = std::min(least, seconds_of(device, fn));
  }
  return least;
}

/// The median of this many measured times, an odd number: the expected time on a machine that others use too.
template <class Fn>
double typical_seconds(c10::Device device, int64_t times, Fn&& fn) {
  std::vector<double> seconds;
  for (int64_t i = 0; i < times; ++i) {
    seconds.push_back(seconds_of(device, fn));
  }
  const auto middle = seconds.begin() + times / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

} // namespace weft::measure
