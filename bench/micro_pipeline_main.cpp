#include "weft/graph/ir/parse.h"
#include "weft/graph/overlap/micro_pipeline.h"

#include <algorithm>
#include <ctime>
#include <iostream>

namespace {

using namespace weft;

/// The matmuls of a layer of a decoder, sequence parallel, between its collectives; # is the layer, @ the next.
constexpr const char* kLayer = R"(  %g#: f32[4,8,16] {R} = all_gather(%x#, tp: {S(1)} -> {R})
  %q#: f32[4,8,16] {S(2)} = aten::linear(%g#, %wq)
  %k#: f32[4,8,16] {S(2)} = aten::linear(%g#, %wk)
  %a#: f32[4,8,16] {S(2)} = aten::mul.Tensor(%q#, %k#)
  %o#: f32[4,8,16] {P(sum)} = aten::linear(%a#, %wo)
  %s#: f32[4,8,16] {S(1)} = reduce_scatter(%o#, tp: {P(sum)} -> {S(1)})
  %r#: f32[4,8,16] {S(1)} = aten::add.Tensor(%x#, %s#)
  %h#: f32[4,8,16] {R} = all_gather(%r#, tp: {S(1)} -> {R})
  %u#: f32[4,8,32] {S(2)} = aten::linear(%h#, %wu)
  %v#: f32[4,8,32] {S(2)} = aten::relu(%u#)
  %d#: f32[4,8,16] {P(sum)} = aten::linear(%v#, %wd)
  %t#: f32[4,8,16] {S(1)} = reduce_scatter(%d#, tp: {P(sum)} -> {S(1)})
  %x@: f32[4,8,16] {S(1)} = aten::add.Tensor(%r#, %t#)
)";

std::string decoder(int64_t layers) {
  std::string text = R"(program @ mesh(tp=2)
input %wq: f32[16,16] {S(0)} = parameter "q"
input %wk: f32[16,16] {S(0)} = parameter "k"
input %wo: f32[16,16] {S(1)} = parameter "o"
input %wu: f32[32,16] {S(0)} = parameter "u"
input %wd: f32[16,32] {S(1)} = parameter "d"
input %x0: f32[4,8,16] {S(1)} = user
)";
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (const char* at = kLayer; *at != '\0'; ++at) {
      text += *at == '#' ? std::to_string(layer) : *at == '@' ? std::to_string(layer + 1) : std::string(1, *at);
    }
  }
  return text + "output %x" + std::to_string(layers) + " = user\n";
}

} // namespace

/// micro_pipeline_main <layers>: seconds of CPU time that the pass takes where every collective is fused, as JSON.
int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: micro_pipeline_main <layers>\n";
    return 2;
  }
  auto program = graph::parse_program(decoder(std::stoll(argv[1])));
  const auto nodes = program.graph->size();
  const auto begin = std::clock();
  const auto decisions = graph::micro_pipeline(program, {.mode = OverlapMode::Force});
  const auto end = std::clock();
  const auto fused = std::count_if(decisions.begin(), decisions.end(), [](const auto& each) { return each.fused; });
  std::cout << "{\"nodes\": " << nodes << ", \"overlap\": " << static_cast<double>(end - begin) / CLOCKS_PER_SEC
            << ", \"fused\": " << fused << "}\n";
}
