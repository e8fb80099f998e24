#include "weft/comm/world/fake_world.h"
#include "weft/redistribute/execute.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <benchmark/benchmark.h>

namespace {

struct Case {
  const char* source;
  const char* target;
};

/// Changes that need no communication. bench/local.py reads the cases back from the names, and gives them to the peer.
constexpr Case kCases[] = {
    {"{S(0), R}", "{S(0), R}"}, {"{R, R}", "{S(0), R}"},   {"{R, R}", "{S(1), R}"},
    {"{R, R}", "{S(0), S(0)}"}, {"{R, R}", "{P(sum), R}"},
};

/// Rank 3 of a 2x2 mesh, which keeps nothing of a value that becomes partial, and so does the most work.
void redistribute(benchmark::State& state, const Case& c) {
  const weft::DeviceMesh mesh(weft::make_fake_world(4, 3), c10::kCPU, {2, 2});
  const auto source = weft::TensorSpec::make(mesh, weft::Layout::parse(c.source), {16, 16}, at::kFloat);
  const auto target = source->with(weft::Layout::parse(c.target));
  const auto local = at::ones(source->local_shape_and_offset().shape);
  for (auto _ : state) {
    benchmark::DoNotOptimize(weft::redistribute_local(local, source, target).wait());
  }
}

} // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  for (const auto& c : kCases) {
    const auto name = std::string(c.source) + "->" + c.target;
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { redistribute(state, c); });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return 2;
  }
  benchmark::RunSpecifiedBenchmarks();
}
