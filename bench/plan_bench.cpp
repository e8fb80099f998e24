#include "weft/comm/world/fake_world.h"
#include "weft/redistribute/plan.h"

#include <benchmark/benchmark.h>

namespace {

struct Pair {
  const char* source;
  const char* target;
};

/// bench/plan.py reads the cases back from the names, and gives them to the peer.
constexpr Pair kPairs[] = {
    {"{S(0), R, R}", "{R, R, R}"},
    {"{P(sum), R, R}", "{R, R, R}"},
    {"{P(sum), P(sum), P(sum)}", "{R, R, R}"},
    {"{P(sum), P(sum), P(sum)}", "{S(0), S(1), R}"},
    {"{P(sum), P(sum), P(sum)}", "{S(0), S(0), S(0)}"},
    {"{S(0), S(1), S(2)}", "{R, S(0), S(1)}"},
    {"{S(0), S(0), R}", "{R, S(0), S(0)}"},
};

/// plan() remembers nothing: every call is a cold one.
void plan_pair(benchmark::State& state, const Pair& pair, int64_t side) {
  const weft::DeviceMesh mesh(weft::make_fake_world(side * side * side), c10::kCPU, {side, side, side});
  const auto source = weft::TensorSpec::make(mesh, weft::Layout::parse(pair.source), {4096, 4096, 64, 64}, at::kFloat);
  const auto target = source->with(weft::Layout::parse(pair.target));
  for (auto _ : state) {
    benchmark::DoNotOptimize(weft::plan(source, target));
  }
}

} // namespace

int main(int argc, char** argv) {
  for (const auto& pair : kPairs) {
    for (const int64_t side : {2, 16}) {
      const auto name = std::string(pair.source) + "->" + pair.target + ";" + std::to_string(side);
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { plan_pair(state, pair, side); });
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
}
