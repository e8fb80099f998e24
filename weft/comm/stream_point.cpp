#include "weft/comm/stream_point.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>

namespace weft {

namespace {

bool has_streams(c10::Device device) {
  return !device.is_cpu() && !device.is_meta();
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// One for each device.
c10::Stream side_stream(c10::Device device) {
  static auto* const mutex = new std::mutex();
  static auto* const streams = new std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, c10::Stream>();
  const std::lock_guard lock(*mutex);
  const auto key = std::pair(device.type(), device.index());
  auto found = streams->find(key);
  if (found == streams->end()) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    found = streams->emplace(key, guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true)).first;
  }
  return found->second;
}

/// Torch 2.11 cannot tell.
template <typename Guard>
bool is_stream_captured(const Guard& guard, c10::Stream stream) {
  if constexpr (requires { guard.isStreamCapturing(stream); }) {
    return guard.isStreamCapturing(stream);
  }
  return false;
}

} // namespace

StreamPoint StreamPoint::now(c10::Device device) {
  StreamPoint point;
  if (has_streams(device)) {
    point.stream_ = current_stream(device);
    auto event = std::make_shared<c10::Event>(device.type());
    event->record(*point.stream_);
    point.event_ = std::move(event);
  }
  return point;
}

void StreamPoint::precede_current() const {
  if (!stream_) {
    return;
  }
  if (const auto current = current_stream(stream_->device()); current != *stream_) {
    event_->block(current);
  }
}

void StreamPoint::synchronize() const {
  if (event_) {
    event_->synchronize();
  }
}

SideStreamScope::SideStreamScope(c10::Device device, bool is_used) {
  if (!is_used || !has_streams(device)) {
    return;
  }
  const auto point = StreamPoint::now(device);
  before_ = c10::impl::VirtualGuardImpl(device.type()).exchangeStream(side_stream(device));
  point.precede_current();
}

SideStreamScope::~SideStreamScope() {
  if (before_) {
    c10::impl::VirtualGuardImpl(before_->device_type()).exchangeStream(*before_);
  }
}

bool is_captured(c10::Device device) {
  return has_streams(device) && is_stream_captured(c10::impl::VirtualGuardImpl(device.type()), current_stream(device));
}

} // namespace weft
