#include "bench/dispatch_cases.h"

#include <valgrind/callgrind.h>

#include <ATen/Parallel.h>

#include <cstring>
#include <iostream>

namespace {

constexpr const char* kUsage =
    "instructions_main: cached calls on plain and on distributed tensors, for the benchmark 'instructions'.\n"
    "bench/run.py runs it under valgrind --tool=callgrind --instr-atstart=no; each case and side is a dump of its "
    "own,\n"
    "named '<case> local' or '<case> distributed', of 10 calls. By itself it prints nothing.\n";

constexpr int kWarmup = 3;
constexpr int kCalls = 10;

void count(const std::string& name, const std::function<at::Tensor()>& call) {
  for (int i = 0; i < kWarmup; ++i) {
    call();
  }
  CALLGRIND_ZERO_STATS;
  for (int i = 0; i < kCalls; ++i) {
    call();
  }
  CALLGRIND_DUMP_STATS_AT(name.c_str());
}

} // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const bool asked = std::strcmp(argv[1], "--help") == 0 || std::strcmp(argv[1], "-h") == 0;
    (asked ? std::cout : std::cerr) << kUsage;
    return asked ? 0 : 2;
  }
  at::set_num_threads(1);
  at::GradMode::set_enabled(false);
  const auto cases = weft::bench::dispatch_cases();
  CALLGRIND_START_INSTRUMENTATION;
  for (const auto& c : cases) {
    if (c.is_one_call) {
      count(c.name + " local", c.local);
      count(c.name + " distributed", c.distributed);
    }
  }
  CALLGRIND_STOP_INSTRUMENTATION;
}
