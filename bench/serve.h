#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include <time.h>

namespace weft::bench {

/// What a case does in one call; the tensor it gives is let go of after the clock has stopped.
using TimedCall = std::function<at::Tensor()>;

inline double wall_microseconds() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Of this thread: what else the machine does is not counted.
inline double cpu_microseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) * 1e-3;
}

/// The cases of one rank of a benchmark.
struct Cases {
  std::function<TimedCall(const std::string& name, int64_t size)> make;
  std::function<void()> barrier;
  double (*now)() = wall_microseconds;
};

/// Answers requests on stdin, which bench/run.py sends to all ranks alike, until it ends:
///
///   20 244 S(0)->R        20 calls of the case S(0)->R of size 244, which here are rows
///   1510.3 1498.7 ...     the answer: microseconds of each
///
/// Every call starts behind a barrier. One call per request goes first that is not timed.
inline void answer_requests(const Cases& cases) {
  std::map<std::pair<std::string, int64_t>, TimedCall> made;
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    int64_t calls = 0;
    int64_t size = 0;
    std::string name;
    TORCH_CHECK_VALUE(
        words >> calls >> size && std::getline(words >> std::ws, name),
        "[serve] a request must read '<calls> <size> <case>', but got '", line, "'.");
    auto& call = made[{name, size}];
    if (!call) {
      call = cases.make(name, size);
    }
    for (int64_t i = -1; i < calls; ++i) {
      cases.barrier();
      const auto start = cases.now();
      const auto result = call();
      const auto time = cases.now() - start;
      if (i >= 0) {
        std::cout << time << ' ';
      }
    }
    std::cout << std::endl;
  }
}

/// The main() of such a program: `make_cases` joins the other ranks.
inline int serve(int argc, char** argv, const char* usage, const std::function<Cases()>& make_cases) {
  if (argc > 1) {
    const bool asked = std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0;
    (asked ? std::cout : std::cerr) << (asked ? "" : "error: no arguments are expected\n") << usage;
    return asked ? 0 : 2;
  }
  try {
    at::set_num_threads(1);
    answer_requests(make_cases());
    return 0;
  } catch (const c10::Error& error) {
    std::cerr << "error: " << error.what_without_backtrace() << '\n';
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << '\n';
  }
  return 1;
}

} // namespace weft::bench
