#include "weft/overlap/measure/link_rate.h"

#include "weft/overlap/measure/timing.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <ctime>

namespace weft {

namespace {

constexpr int64_t kSmallBytes = 1024;
constexpr int64_t kFirstBytes = 64 << 10;
constexpr int64_t kMostBytes = 64 << 20;
constexpr double kSecondsOfLink = 5e-3;

/// Sends one message to the next member and receives one from the member before.
class RingExchange {
 public:
  RingExchange(Group& group, c10::Device device, int64_t bytes)
      : group_(&group), device_(device), sends_(group.size()), recvs_(group.size()) {
    const auto options = at::TensorOptions().device(device).dtype(at::kByte);
    sends_[(group.rank() + 1) % group.size()] = at::zeros({bytes}, options);
    recvs_[(group.rank() + group.size() - 1) % group.size()] = at::empty({bytes}, options);
  }

  Pending start() const {
    return group_->all_to_all(sends_, recvs_);
  }
  double seconds() const {
    return measure::seconds_of(device_, [&] { start().wait(); });
  }

 private:
  Group* group_;
  c10::Device device_;
  std::vector<at::Tensor> sends_;
  std::vector<at::Tensor> recvs_;
};

double small_seconds(Group& group, c10::Device device) {
  const RingExchange exchange(group, device, kSmallBytes);
  exchange.seconds();
  return measure::least_seconds(device, 12, [&] { exchange.start().wait(); });
}

/// The time per message of several that are started at once.
double message_seconds(Group& group, c10::Device device) {
  constexpr int64_t kMessages = 16;
  const std::vector<RingExchange> exchanges(kMessages, RingExchange(group, device, kSmallBytes));
  const auto all_at_once = [&] {
    std::vector<Pending> pending;
    for (const auto& exchange : exchanges) {
      pending.push_back(exchange.start());
    }
    for (auto& each : pending) {
      each.wait();
    }
  };
  return measure::least_seconds(device, 3, all_at_once) / kMessages;
}

/// CPU time of all threads of this process, because threads of the backend send the bytes.
double process_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct LargeTimes {
  double wall;
  double busy; // of the device that computes
};

/// The shortest time of several, because the first message of a size also allocates memory.
LargeTimes large_seconds(Group& group, c10::Device device, int64_t bytes) {
  const RingExchange exchange(group, device, bytes);
  LargeTimes least{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  for (int64_t i = 0; i < 3; ++i) {
    const auto busy_before = process_seconds();
    const auto wall = exchange.seconds();
    const auto busy = device.type() == c10::kCPU ? process_seconds() - busy_before : 0;
    least = {std::min(least.wall, wall), std::min(least.busy, busy)};
  }
  return least;
}

} // namespace

std::vector<double> largest(Group& group, c10::Device device, const std::vector<double>& values) {
  const auto input = at::tensor(values, at::kDouble).to(device);
  const auto output = at::empty_like(input);
  group.all_reduce(input, output, ReduceOp::Max).wait();
  const auto result = output.to(at::kCPU);
  return {result.const_data_ptr<double>(), result.const_data_ptr<double>() + result.numel()};
}

LinkTimes measure_link(Group& group, c10::Device device) {
  const measure::PlainOperators plain;
  group.barrier().wait();
  LinkTimes times{};
  times.latency = small_seconds(group, device);
  times.message = std::min(message_seconds(group, device), times.latency);

  // All members go on to the next size when the slowest one does. The rate is that of the bytes by which two sizes
  // differ, because the first bytes are often sent faster, into buffers or within a rate limit's burst.
  auto bytes = kFirstBytes;
  double quarter = 0;
  auto seconds = largest(group, device, {large_seconds(group, device, bytes).wall})[0];
  LargeTimes times_of_last{};
  do {
    bytes *= 4;
    quarter = seconds;
    times_of_last = large_seconds(group, device, bytes);
    seconds = largest(group, device, {times_of_last.wall})[0];
  } while (seconds < kSecondsOfLink && bytes < kMostBytes);
  const auto count = static_cast<double>(bytes);
  times.per_byte = std::max(seconds - quarter, 0.1 * seconds) / (0.75 * count);
  // Other threads of this process may have used the CPU too, so that the CPU time is limited to the link's time.
  times.device_per_byte = std::min(times_of_last.busy / count, times.per_byte);

  const auto agreed = largest(group, device, {times.latency, times.message, times.per_byte, times.device_per_byte});
  return {.latency = agreed[0], .message = agreed[1], .per_byte = agreed[2], .device_per_byte = agreed[3]};
}

} // namespace weft
