#include "tools/progress_bar.h"

#include <unistd.h>

#include <cmath>
#include <iostream>

namespace weft {

namespace {

constexpr int kWidth = 40;
constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kInterval = std::chrono::milliseconds(100);

} // namespace

ProgressBar::ProgressBar(std::string label) : label_(std::move(label)), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (shown_ != Clock::time_point()) {
    std::cerr << "\r\033[K" << std::flush;
  }
}

void ProgressBar::show(double done) {
  const auto now = Clock::now();
  if (!is_terminal_ || now - begin_ < kPatience || now - shown_ < kInterval) {
    return;
  }
  shown_ = now;
  const auto filled = static_cast<int>(std::lround(done * kWidth));
  std::string bar;
  for (int i = 0; i < kWidth; ++i) {
    bar += i < filled ? "█" : "░";
  }
  const std::chrono::duration<double> passed = now - begin_;
  const auto left = done > 0 ? std::lround(passed.count() / done * (1 - done)) : 0;
  std::cerr << "\r\033[K" << label_ << " " << bar << " " << std::lround(done * 100) << " %, " << left << " s left"
            << std::flush;
}

} // namespace weft
