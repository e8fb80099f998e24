#pragma once

#include <string>

namespace weft::testing {

/// The matmuls of the layers of a decoder, sequence parallel, between their collectives: a program as text.
inline std::string decoder(int64_t layers) {
  // # is the layer, @ the next.
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

} // namespace weft::testing
