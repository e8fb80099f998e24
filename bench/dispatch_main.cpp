#include "bench/dispatch_cases.h"
#include "bench/serve.h"

#include <torch/cuda.h>

namespace {

constexpr const char* kUsage =
    "dispatch_main: Weft's side in C++ of the benchmark 'dispatch', started by bench/run.py.\n"
    "Reads '<batches> <calls> <case> local' or '... distributed' from stdin, and prints the CPU microseconds of each\n"
    "batch of so many calls.\n";

weft::bench::TimedCall make_batch(
    const std::vector<weft::bench::DispatchCase>& cases,
    const std::string& request,
    int64_t calls) {
  for (const auto& c : cases) {
    for (const auto& [side, call] : {std::pair(" local", c.local), std::pair(" distributed", c.distributed)}) {
      if (request == c.name + side) {
        return [call = call, calls] {
          at::Tensor result;
          for (int64_t i = 0; i < calls; ++i) {
            result = call();
          }
          return result;
        };
      }
    }
  }
  TORCH_CHECK_VALUE(false, "[dispatch] a case and its side are required, as in 'add local', but got '", request, "'.");
}

} // namespace

int main(int argc, char** argv) {
  return weft::bench::serve(argc, argv, kUsage, [] {
    at::GradMode::set_enabled(false);
    return weft::bench::Cases{
        .make = [cases = weft::bench::dispatch_cases()](
                    const std::string& request, int64_t calls) { return make_batch(cases, request, calls); },
        .barrier =
            [] {
              if (weft::bench::bench_device().is_cuda()) {
                torch::cuda::synchronize();
              }
            },
        .now = weft::bench::cpu_microseconds};
  });
}
