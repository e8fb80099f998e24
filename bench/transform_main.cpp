#include "weft/comm/world/fake_world.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/overlap/micro_pipeline.h"
#include "weft/graph/pt2/read_pt2.h"

#include <ctime>
#include <iostream>
#include <string_view>

/// transform_main <file.pt2> --plan <plan.json> --ranks <n>: seconds of CPU time that the analysis of a program takes, that it
/// takes to overlap collectives with matmuls where that pays, and to write the program of one rank; and how many nodes it has.
/// A line of JSON.
int main(int argc, char** argv) {
  using namespace weft;
  if (argc != 6 || std::string_view(argv[2]) != "--plan" || std::string_view(argv[4]) != "--ranks") {
    std::cerr << "usage: transform_main <file.pt2> --plan <plan.json> --ranks <n>\n";
    return 2;
  }
  auto program = graph::read_pt2(argv[1]);
  const auto nodes = program.graph->size();
  const auto plan = nn::ParallelPlan::load(argv[3]);
  const auto mesh = analysis_mesh(std::string("tp=") + argv[5]);
  const auto begin = std::clock();
  graph::shard(program, mesh, plan, {}, {.mode = OverlapMode::Off});
  const auto analysed = std::clock();
  const auto decisions = graph::micro_pipeline(program);
  const auto overlapped = std::clock();
  const auto local = graph::program_of_rank(program, mesh.size() - 1);
  const auto end = std::clock();
  const auto seconds = [](std::clock_t from, std::clock_t to) {
    return static_cast<double>(to - from) / CLOCKS_PER_SEC;
  };
  std::cout << "{\"nodes\": " << nodes << ", \"analysis\": " << seconds(begin, analysed)
            << ", \"overlap\": " << seconds(analysed, overlapped) << ", \"collectives\": " << decisions.size()
            << ", \"rewrite\": " << seconds(overlapped, end) << ", \"nodes_of_rank\": " << local.graph->size() << "}\n";
  return 0;
}
