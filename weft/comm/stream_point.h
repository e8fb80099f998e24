#pragma once

#include <c10/core/Event.h>

#include <memory>
#include <optional>

namespace weft {

/// What the current stream of a device had been given at some moment; nothing on the CPU, which has no streams.
///
///   const auto written = StreamPoint::now(tensor.device());
///   written.precede_current();   // on another stream: what it is given from here on runs after what was written
///
/// The host never waits, and nothing happens where the stream is the same.
class StreamPoint {
 public:
  StreamPoint() = default;
  static StreamPoint now(c10::Device device);

  void precede_current() const;
  /// The host waits until that is done.
  void synchronize() const;

 private:
  std::shared_ptr<const c10::Event> event_;
  std::optional<c10::Stream> stream_;
};

/// Until the end of the scope the current stream of a device is its side stream, for copies that overlap with what is computed. What it
/// is given runs after what the stream before was given until then.
class SideStreamScope {
 public:
  /// Nothing happens where `is_used` is false, or the device has no streams.
  explicit SideStreamScope(c10::Device device, bool is_used = true);
  ~SideStreamScope();
  SideStreamScope(const SideStreamScope&) = delete;
  SideStreamScope& operator=(const SideStreamScope&) = delete;

 private:
  std::optional<c10::Stream> before_;
};

/// Whether what the current stream is given is recorded into a graph, as of CUDA, instead of being run.
bool is_captured(c10::Device device);

} // namespace weft
