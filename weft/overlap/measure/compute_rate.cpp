#include "weft/overlap/measure/compute_rate.h"

#include "weft/overlap/measure/timing.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <functional>
#include <map>
#include <mutex>

namespace weft {

namespace {

constexpr double kSecondsOfMatmul = 1e-3;
constexpr int64_t kSmallestSide = 128;
constexpr int64_t kLargestSide = 4096;
constexpr int64_t kThinRows = 32; // as a chunk has

struct Sizes {
  int64_t rows;
  int64_t inner;
  int64_t columns;

  double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(columns);
  }
  double elements() const {
    return static_cast<double>(rows * inner + inner * columns + rows * columns);
  }
};

/// A matmul to be timed: it holds its operands.
std::function<void()> product(const Sizes& sizes, c10::Device device, c10::ScalarType dtype) {
  const auto plain = at::TensorOptions().device(device).dtype(at::kFloat);
  if (c10::isFloat8Type(dtype)) {
    const auto left = at::full({sizes.rows, sizes.inner}, 0.5, plain).to(dtype);
    const auto right = at::full({sizes.columns, sizes.inner}, 0.5, plain).to(dtype).t();
    const auto scale = at::ones({}, plain);
    return [=] { at::_scaled_mm(left, right, scale, scale, {}, {}, at::kBFloat16); };
  }
  const auto left = at::full({sizes.rows, sizes.inner}, 0.5, plain).to(dtype);
  const auto right = at::full({sizes.inner, sizes.columns}, 0.5, plain).to(dtype);
  return [=] { at::mm(left, right); };
}

/// Times many short calls together, so that a device's queue is full.
double call_seconds(c10::Device device, c10::ScalarType dtype) {
  constexpr int64_t kCalls = 20;
  const auto tiny = product({16, 16, 16}, device, dtype);
  tiny();
  const auto calls = [&] {
    for (int64_t i = 0; i < kCalls; ++i) {
      tiny();
    }
  };
  return measure::least_seconds(device, 3, calls) / kCalls;
}

Compute measure_compute(c10::Device device, c10::ScalarType dtype) {
  const measure::PlainOperators plain;
  const auto call = call_seconds(device, dtype);

  auto side = kSmallestSide;
  auto large = product({side, side, side}, device, dtype);
  large();
  while (measure::seconds_of(device, large) < kSecondsOfMatmul && side < kLargestSide) {
    side *= 2;
    large = product({side, side, side}, device, dtype);
    large();
  }
  const Sizes large_sizes{side, side, side};
  const auto large_seconds = std::max(measure::typical_seconds(device, 5, large) - call, 1e-9);

  const auto thin_side = device.type() == c10::kCPU ? 1024 : 2 * kLargestSide;
  const Sizes thin_sizes{kThinRows, thin_side, thin_side};
  const auto thin = product(thin_sizes, device, dtype);
  thin();
  const auto thin_seconds = std::max(measure::typical_seconds(device, 9, thin) - call, 1e-9);

  // Each time is flops / flop rate + bytes / memory rate: two equations for the two rates. If the memory is too fast to
  // show, its rate is what the thin matmul would need if it had no flops.
  const auto bytes = static_cast<double>(c10::elementSize(dtype));
  const auto large_bytes = large_sizes.elements() * bytes;
  const auto thin_bytes = thin_sizes.elements() * bytes;
  const auto determinant = large_sizes.flops() * thin_bytes - thin_sizes.flops() * large_bytes;
  auto per_byte = (large_sizes.flops() * thin_seconds - thin_sizes.flops() * large_seconds) / determinant;
  per_byte = std::max(per_byte, 0.1 * thin_seconds / thin_bytes);
  const auto per_flop = std::max((large_seconds - large_bytes * per_byte), 0.5 * large_seconds) / large_sizes.flops();
  return {.flops_per_second = 1 / per_flop, .bytes_per_second = 1 / per_byte, .call_seconds = call};
}

} // namespace

Compute measured_compute(c10::Device device, c10::ScalarType dtype) {
  static auto* mutex = new std::mutex();
  static auto* measured = new std::map<std::tuple<c10::DeviceType, int64_t, c10::ScalarType, int64_t>, Compute>();
  const auto threads = device.type() == c10::kCPU ? at::get_num_threads() : 1;
  // Ranks as threads wait here for the first one to measure; they have the same device.
  const std::lock_guard lock(*mutex);
  const auto [found, is_new] = measured->try_emplace({device.type(), device.index(), dtype, threads});
  if (is_new) {
    try {
      found->second = measure_compute(device, dtype);
    } catch (...) {
      measured->erase(found);
      throw;
    }
  }
  return found->second;
}

Compute assumed_compute(c10::DeviceType device_type, c10::ScalarType dtype) {
  if (device_type == c10::kCUDA) {
    const auto rate = c10::elementSize(dtype) > 2 ? 50e12 : 1200e12 / static_cast<double>(c10::elementSize(dtype));
    return {.flops_per_second = rate, .bytes_per_second = 3e12, .call_seconds = 5e-6};
  }
  return {
      .flops_per_second = 100e9,
      .bytes_per_second = 25e9,
      .call_seconds = 2e-6,
      .message_seconds = 15e-6,
      .message_bytes_per_second = 2e9};
}

} // namespace weft
