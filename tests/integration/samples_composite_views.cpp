#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

using Ints = std::vector<int64_t>;
using IValues = std::vector<c10::IValue>;

void add_composite_shapes(Samples& samples) {
  const auto reshape = [&](const Ints& from, const Ints& to) {
    samples.add_composite("aten::reshape", floats({from}), [to](const Inputs& t) { return IValues{t[0], to}; });
  };
  reshape({4, 6}, {2, 2, 6});
  reshape({4, 6}, {4, 2, -1});
  reshape({2, 4, 3}, {-1, 3});
  reshape({5, 4}, {10, 2});
  samples.add_composite("aten::reshape", floats({{4, 6}}), [](const Inputs& t) { return IValues{t[0].t(), Ints{24}}; });
  samples.add_composite(
      "aten::flatten.using_ints", floats({{2, 4, 3}}), [](const Inputs& t) { return IValues{t[0], 1}; });
  samples.add_composite(
      "aten::flatten.using_ints", floats({{4, 2, 3}}), [](const Inputs& t) { return IValues{t[0], 0, 1}; });
  samples.add_composite(
      "aten::flatten.using_ints", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], -1}; });
  samples.add_composite("aten::flatten.using_ints", floats({{}}), [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite("aten::ravel", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite(
      "aten::unflatten.int", floats({{3, 8}}), [](const Inputs& t) { return IValues{t[0], -1, Ints{4, -1}}; });
  samples.add_composite(
      "aten::unflatten.int", floats({{6, 5}}), [](const Inputs& t) { return IValues{t[0], 0, Ints{3, 2}}; });
}

void add_shapes_of_others(Samples& samples) {
  for (const auto* op : {"aten::view_as", "aten::reshape_as"}) {
    samples.add_composite(op, floats({{4, 6}, {4, 3, 2}}), [](const Inputs& t) { return IValues{t[0], t[1]}; });
    samples.add_composite(op, floats({{4, 6}, {8, 3}}), [](const Inputs& t) { return IValues{t[0], t[1]}; });
  }
  for (const auto& shape : {Ints{4}, Ints{5, 1}, Ints{}}) {
    samples.add_composite(
        "aten::expand_as", floats({shape, {5, 4}}), [](const Inputs& t) { return IValues{t[0], t[1]}; });
  }
  samples.add_composite(
      "aten::broadcast_to", floats({{5, 1}}), [](const Inputs& t) { return IValues{t[0], Ints{2, -1, 3}}; });
  samples.add_composite("aten::broadcast_tensors", floats({{5, 1}, {4}}), [](const Inputs& t) { return IValues{t}; });
}

void add_orders(Samples& samples) {
  const Inputs three = floats({{5, 4, 3}});
  samples.add_composite("aten::swapaxes", three, [](const Inputs& t) { return IValues{t[0], 0, -1}; });
  samples.add_composite("aten::swapdims", three, [](const Inputs& t) { return IValues{t[0], 1, 2}; });
  samples.add_composite("aten::movedim.int", three, [](const Inputs& t) { return IValues{t[0], 0, -1}; });
  samples.add_composite(
      "aten::movedim.intlist", three, [](const Inputs& t) { return IValues{t[0], Ints{2, 0}, Ints{0, 1}}; });
  samples.add_composite("aten::moveaxis.int", three, [](const Inputs& t) { return IValues{t[0], 2, 0}; });
  samples.add_composite("aten::mT", three, [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite("aten::mH", three, [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite("aten::adjoint", three, [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite("aten::matrix_H", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite("aten::numpy_T", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite("aten::narrow", three, [](const Inputs& t) { return IValues{t[0], 1, 1, 2}; });
}

void add_composite_parts(Samples& samples) {
  const auto chunk = [&](const Ints& shape, int64_t chunks, int64_t dim) {
    for (const auto* op : {"aten::chunk", "aten::unsafe_chunk", "aten::tensor_split.sections"}) {
      samples.add_composite(op, floats({shape}), [=](const Inputs& t) { return IValues{t[0], chunks, dim}; });
    }
  };
  chunk({5, 8}, 2, -1);
  chunk({6, 5}, 3, 0);
  chunk({7, 4}, 3, 0);
  chunk({6, 5}, 4, 0);
  samples.add_composite(
      "aten::tensor_split.indices", floats({{6, 5}}), [](const Inputs& t) { return IValues{t[0], Ints{1, 4}, 0}; });
  samples.add_composite(
      "aten::split.sizes", floats({{6, 5}}), [](const Inputs& t) { return IValues{t[0], Ints{2, 4}, 0}; });
  samples.add_composite("aten::split.Tensor", floats({{5, 8}}), [](const Inputs& t) { return IValues{t[0], 4, 1}; });
}

void add_joins(Samples& samples) {
  for (const auto* op : {"aten::concat", "aten::concatenate"}) {
    samples.add_composite(op, floats({{5, 2}, {5, 2}}), [](const Inputs& t) { return IValues{t, 1}; });
    samples.add_composite(op, floats({{3, 4}, {2, 4}}), [](const Inputs& t) { return IValues{t}; });
  }
  for (const auto* op : {"aten::vstack", "aten::row_stack", "aten::hstack", "aten::column_stack"}) {
    samples.add_composite(op, floats({{4, 3}, {4, 3}}), [](const Inputs& t) { return IValues{t}; });
    samples.add_composite(op, floats({{4}, {4}}), [](const Inputs& t) { return IValues{t}; });
  }
  samples.add_composite("aten::dstack", floats({{4, 3, 2}, {4, 3, 2}}), [](const Inputs& t) { return IValues{t}; });
  samples.add_composite("aten::tile", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], Ints{3}}; });
  samples.add_composite("aten::tile", floats({{4}}), [](const Inputs& t) { return IValues{t[0], Ints{2, 2}}; });
  const auto none = c10::IValue();
  samples.add_composite("aten::repeat_interleave.self_int", floats({{4, 3}}), [none](const Inputs& t) {
    return IValues{t[0], 3, 0, none};
  });
  samples.add_composite(
      "aten::repeat_interleave.self_int", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], 2, -1, 8}; });
  samples.add_composite(
      "aten::repeat_interleave.self_int", floats({{4, 3}}), [](const Inputs& t) { return IValues{t[0], 2}; });
  samples.add_composite("aten::pad", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], Ints{1, 2}}; });
  samples.add_composite(
      "aten::pad", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], Ints{0, 0, 1, 0}, "constant", 2.0}; });
  for (const auto* mode : {"reflect", "replicate", "circular"}) {
    samples.add_composite(
        "aten::pad", floats({{3, 4, 5}}), [mode](const Inputs& t) { return IValues{t[0], Ints{1, 2}, mode}; });
  }
}

} // namespace

void add_composite_view_samples(Samples& samples) {
  add_composite_shapes(samples);
  add_shapes_of_others(samples);
  add_orders(samples);
  add_composite_parts(samples);
  add_joins(samples);
}

} // namespace weft::testing
