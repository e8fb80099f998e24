#pragma once

#include <chrono>
#include <string>

namespace weft {

/// A bar on stderr for work that takes longer than a second; nothing where stderr is no terminal. Gone when it ends.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// From 0 to 1.
  void show(double done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string label_;
  bool is_terminal_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_;
};

} // namespace weft
