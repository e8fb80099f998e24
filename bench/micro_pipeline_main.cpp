#include "tests/support/decoder_text.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/overlap/micro_pipeline.h"

#include <algorithm>
#include <ctime>
#include <iostream>

/// micro_pipeline_main <layers>: seconds of CPU time that the pass takes where every collective is fused, as JSON.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: micro_pipeline_main <layers>\n";
    return 2;
  }
  auto program = weft::graph::parse_program(weft::testing::decoder(std::stoll(argv[1])));
  const auto nodes = program.graph->size();
  const auto begin = std::clock();
  const auto decisions = weft::graph::micro_pipeline(program, {.mode = weft::OverlapMode::Force});
  const auto end = std::clock();
  const auto fused = std::count_if(decisions.begin(), decisions.end(), [](const auto& each) { return each.fused; });
  std::cout << "{\"nodes\": " << nodes << ", \"overlap\": " << static_cast<double>(end - begin) / CLOCKS_PER_SEC
            << ", \"fused\": " << fused << "}\n";
}
