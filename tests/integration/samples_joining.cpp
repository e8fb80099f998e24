#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

void add_rearrangements(Samples& samples) {
  samples.add("aten::repeat", {{5, 4}}, [](const Inputs& t) { return t[0].repeat({2, 1, 3}); });
  samples.add("aten::repeat", {{6}}, [](const Inputs& t) { return t[0].repeat({2}); });
  samples.add("aten::repeat", {{}}, [](const Inputs& t) { return t[0].repeat({3}); });
  samples.add("aten::repeat", {{4, 5}}, [](const Inputs& t) { return t[0].tile({2}) * 3; });
  samples.add("aten::flip", {{5, 4}}, [](const Inputs& t) { return t[0].flip({0}); });
  samples.add("aten::roll", {{5, 4}}, [](const Inputs& t) { return t[0].roll({1}, {1}); });
  samples.add("aten::roll", {{5, 4}}, [](const Inputs& t) { return t[0].roll({3}); });
  samples.add("aten::rot90", {{5, 4, 3}}, [](const Inputs& t) { return t[0].rot90(-1, {0, 2}); });
  samples.add("aten::tril", {{3, 5, 4}}, [](const Inputs& t) { return t[0].tril(1); });
  samples.add("aten::triu", {{5, 4}}, [](const Inputs& t) { return t[0].triu(); });
  samples.add("aten::constant_pad_nd", {{5, 4}}, [](const Inputs& t) { return at::constant_pad_nd(t[0], {1, 2}, 3); });
  samples.add(
      "aten::constant_pad_nd", {{5, 4}}, [](const Inputs& t) { return at::constant_pad_nd(t[0], {0, 0, -1, 1}); });
  samples.add("aten::diag_embed", {{5, 4}}, [](const Inputs& t) { return t[0].diag_embed(1, 0, 2); });
}

} // namespace

void add_joining_samples(Samples& samples) {
  samples.add("aten::cat", {{5, 4}, {5, 2}}, [](const Inputs& t) { return at::cat({t[0], t[1]}, 1); });
  samples.add("aten::cat", {{2, 3}, {1, 3}, {2, 3}}, [](const Inputs& t) { return at::cat({t[0], t[1], t[2]}); });
  samples.add_with("aten::cat", floats({{0}, {5, 4}}), without_gradients([](const Inputs& t) {
                     return Inputs{at::cat({t[0], t[1]}, 1)};
                   }));
  samples.add("aten::cat", {{5}, {4}}, [](const Inputs& t) { return at::cat({t[0], t[1]}); });
  samples.add_with("aten::cat", {sample_values({2, 3}, 1), whole_numbers({2, 3}, 9)}, [](const Inputs& t) {
    return Inputs{at::cat({t[0], t[1]})};
  });
  samples.add("aten::stack", {{5, 4}, {5, 4}}, [](const Inputs& t) { return at::stack({t[0], t[1]}, 1); });
  samples.add("aten::stack", {{}, {}}, [](const Inputs& t) { return at::stack({t[0], t[1]}); });
  samples.add(
      "aten::slice_scatter", {{5, 4}, {5, 2}}, [](const Inputs& t) { return at::slice_scatter(t[0], t[1], 1, 1, 3); });
  samples.add(
      "aten::select_scatter", {{5, 4}, {4}}, [](const Inputs& t) { return at::select_scatter(t[0], t[1], 0, 2); });
  samples.add(
      "aten::diagonal_scatter", {{5, 4}, {4}}, [](const Inputs& t) { return at::diagonal_scatter(t[0], t[1]); });
  add_rearrangements(samples);
}

} // namespace weft::testing
