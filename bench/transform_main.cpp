#include "weft/comm/fake_world.h"
#include "weft/graph/passes/common_redistributions.h"
#include "weft/graph/passes/dead_code.h"
#include "weft/graph/passes/localize.h"
#include "weft/graph/passes/tensor_parallel.h"
#include "weft/graph/pt2/read_pt2.h"

#include <chrono>
#include <iostream>

/// transform_main <file.pt2> <plan.json> <ranks>: seconds that analysis and rewrite take, and nodes.
int main(int argc, char** argv) {
  using namespace weft;
  if (argc != 4) {
    std::cerr << "usage: transform_main <file.pt2> <plan.json> <ranks>\n";
    return 2;
  }
  auto program = graph::read_pt2(argv[1]);
  const auto plan = nn::ParallelPlan::load(argv[2]);
  const auto ranks = std::stoll(argv[3]);
  const auto nodes = program.graph->size();
  const DeviceMesh mesh(make_fake_world(ranks), c10::kCPU, {ranks}, {"tp"});
  const auto begin = std::chrono::steady_clock::now();
  graph::tensor_parallel(program, mesh, plan);
  graph::common_redistributions(*program.graph);
  graph::dead_code(*program.graph);
  const auto analysed = std::chrono::steady_clock::now();
  const auto local = graph::localize(program, ranks - 1);
  const auto end = std::chrono::steady_clock::now();
  const auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
  std::cout << nodes << " " << seconds(begin, analysed) << " " << seconds(analysed, end) << " " << local.graph->size() << "\n";
  return 0;
}
