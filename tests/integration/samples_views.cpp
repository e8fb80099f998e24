#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

using Dims = std::vector<int64_t>;

void add_shapes(Samples& samples) {
  samples.add("aten::view", {{12, 8}}, [](const Inputs& t) { return t[0].view({16, 6}); });
  samples.add("aten::view", {{6, 4}}, [](const Inputs& t) { return t[0].view({2, 3, -1}); });
  samples.add("aten::view", {{2, 3, 4}}, [](const Inputs& t) { return t[0].view({6, 4}); });
  samples.add("aten::view", {{2, 3, 4}}, [](const Inputs& t) { return t[0].view({24}); });
  samples.add("aten::view", {{5, 1, 4}}, [](const Inputs& t) { return t[0].view({5, 4, 1}); });
  samples.add("aten::view", {{}}, [](const Inputs& t) { return t[0].view({1, 1}); });
  samples.add("aten::view", {{5, 4}}, [](const Inputs& t) { return t[0].view({20}).view({4, 5}); });
  samples.add("aten::_unsafe_view", {{5, 4}}, [](const Inputs& t) { return at::_unsafe_view(t[0], {5, 2, 2}); });
  samples.add("aten::view", {{6, 4}}, [](const Inputs& t) { return t[0].flatten().unflatten(0, {4, 6}); });
  samples.add("aten::view", {{5, 4}}, [](const Inputs& t) { return t[0].t().reshape({2, 10}); });
  samples.add("aten::_reshape_alias", {{5, 4}}, [](const Inputs& t) { return t[0].slice(1, 1, 3).reshape({5, 1, 2}); });
  samples.add("aten::_reshape_alias", {{6, 4}}, [](const Inputs& t) { return t[0].t().reshape({4, 2, 3}); });
  samples.add_with("aten::view", {whole_numbers({5, 4}, 9)}, [](const Inputs& t) {
    return Inputs{t[0].view(at::kDouble).view(at::kInt)};
  });
  samples.add("aten::transpose", {{2, 3, 4}}, [](const Inputs& t) { return t[0].transpose(0, -1); });
  samples.add("aten::t", {{5, 4}}, [](const Inputs& t) { return t[0].t(); });
  samples.add("aten::permute", {{2, 3, 4}}, [](const Inputs& t) { return t[0].permute({2, 0, 1}); });
  samples.add("aten::permute", {{2, 3, 4}}, [](const Inputs& t) { return t[0].movedim(0, 2); });
  samples.add("aten::unsqueeze", {{5, 4}}, [](const Inputs& t) { return t[0].unsqueeze(1); });
  samples.add("aten::unsqueeze", {{}}, [](const Inputs& t) { return t[0].unsqueeze(0); });
  samples.add("aten::squeeze", {{5, 1, 4}}, [](const Inputs& t) { return t[0].squeeze(1); });
  samples.add("aten::squeeze", {{3, 1, 4}}, [](const Inputs& t) { return t[0].squeeze(0); });
  samples.add("aten::squeeze", {{1, 5, 1}}, [](const Inputs& t) { return t[0].squeeze(); });
  samples.add("aten::squeeze", {{3, 1, 2, 1}}, [](const Inputs& t) { return t[0].squeeze(Dims{0, 1, 3}); });
  samples.add("aten::squeeze", {{5, 1}}, [](const Inputs& t) { return t[0].squeeze(Dims{}); });
  samples.add("aten::expand", {{5, 1}}, [](const Inputs& t) { return t[0].expand({3, 5, 4}); });
  samples.add("aten::expand", {{}}, [](const Inputs& t) { return t[0].expand({3}); });
  samples.add("aten::view_as_complex", {{5, 3, 2}}, [](const Inputs& t) {
    return at::view_as_real(at::view_as_complex(t[0]));
  });
}

void add_parts(Samples& samples) {
  samples.add("aten::select", {{5, 4}}, [](const Inputs& t) { return t[0].select(1, 2); });
  samples.add("aten::select", {{4}}, [](const Inputs& t) { return t[0].select(0, -1); });
  samples.add("aten::slice", {{5, 4}}, [](const Inputs& t) { return t[0].slice(0, 1, 4, 2); });
  samples.add("aten::slice", {{5, 4}}, [](const Inputs& t) { return t[0].slice(1, 0, 9); });
  samples.add("aten::slice", {{5, 4}}, [](const Inputs& t) { return t[0].slice(0, -9, 5); });
  samples.add("aten::slice", {{6, 4}}, [](const Inputs& t) { return t[0].narrow(0, 2, 3); });
  samples.add_with("aten::split", floats({{5, 4}}), [](const Inputs& t) { return t[0].split(2, 0); });
  samples.add_with("aten::split", floats({{5, 6}}), [](const Inputs& t) { return t[0].chunk(3, 1); });
  samples.add_with(
      "aten::split_with_sizes", floats({{5, 4}}), [](const Inputs& t) { return t[0].split_with_sizes({1, 3}, 1); });
  samples.add_with("aten::unbind", floats({{3, 4}}), [](const Inputs& t) { return t[0].unbind(0); });
  samples.add("aten::diagonal", {{5, 4, 3}}, [](const Inputs& t) { return t[0].diagonal(1, 0, 2); });
  samples.add("aten::diagonal", {{5, 4}}, [](const Inputs& t) { return t[0].diagonal(); });
  samples.add("aten::unfold", {{5, 4}}, [](const Inputs& t) { return t[0].unfold(0, 3, 1); });
  samples.add("aten::unfold", {{5, 6}}, [](const Inputs& t) { return t[0].unfold(1, 2, 2); });
}

} // namespace

void add_view_samples(Samples& samples) {
  add_shapes(samples);
  add_parts(samples);
}

} // namespace weft::testing
