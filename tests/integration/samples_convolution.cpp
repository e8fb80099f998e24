#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

using Mask = std::array<bool, 3>;

void add_backward(Samples& samples, const Shapes& shapes, int64_t groups, bool transposed, Mask wanted) {
  const auto channels = shapes[0][1];
  samples.add_with(
      "aten::convolution_backward", floats(shapes), without_gradients([=](const Inputs& t) {
        const auto all = results(at::convolution_backward(
            t[0], t[1], t[2], c10::IntArrayRef{channels}, {1, 1}, {0, 0}, {1, 1}, transposed, {0, 0}, groups, wanted));
        // What is not asked for may come out all the same, and is nothing to go by.
        return wanted[1] == wanted[2] ? all : Inputs(all.begin(), all.begin() + 1);
      }));
}

} // namespace

void add_convolution_samples(Samples& samples) {
  samples.add("aten::convolution", {{3, 4, 5, 5}, {6, 4, 3, 3}, {6}}, [](const Inputs& t) {
    return at::conv2d(t[0], t[1], t[2]);
  });
  samples.add("aten::convolution", {{2, 6, 5, 5}, {3, 6, 3, 3}}, [](const Inputs& t) {
    return at::conv2d(t[0], t[1], {}, /*stride=*/2, /*padding=*/1);
  });
  samples.add("aten::convolution", {{2, 8, 5, 5}, {8, 2, 3, 3}, {8}}, [](const Inputs& t) {
    return at::conv2d(t[0], t[1], t[2], 1, at::IntArrayRef{1}, 1, /*groups=*/4);
  });
  samples.add("aten::convolution", {{2, 6, 5, 5}, {6, 1, 3, 3}, {6}}, [](const Inputs& t) {
    return at::conv2d(t[0], t[1], t[2], 1, at::IntArrayRef{0}, 1, /*groups=*/6);
  });
  samples.add(
      "aten::convolution", {{5, 4, 6}, {4, 4, 3}, {4}}, [](const Inputs& t) { return at::conv1d(t[0], t[1], t[2]); });
  samples.add("aten::convolution", {{2, 4, 3, 3}, {4, 6, 2, 2}, {6}}, [](const Inputs& t) {
    return at::conv_transpose2d(t[0], t[1], t[2], /*stride=*/2);
  });
  samples.add("aten::convolution", {{2, 6, 3, 3}, {6, 2, 2, 2}, {6}}, [](const Inputs& t) {
    return at::conv_transpose2d(t[0], t[1], t[2], 1, 0, 0, /*groups=*/3);
  });
  // Large enough for a halo along the spatial dims.
  samples.add("aten::convolution", {{1, 2, 16}, {3, 2, 3}, {3}}, [](const Inputs& t) {
    return at::conv1d(t[0], t[1], t[2], 2, 1, /*dilation=*/2);
  });
  samples.add("aten::convolution", {{1, 4, 12, 12}, {4, 2, 3, 3}}, [](const Inputs& t) {
    return at::conv2d(t[0], t[1], {}, 1, at::IntArrayRef{1}, 1, /*groups=*/2);
  });
  add_backward(samples, {{1, 3, 10, 10}, {1, 2, 12, 12}, {3, 2, 3, 3}}, 1, false, {true, true, true});
  add_backward(samples, {{3, 6, 3, 3}, {3, 4, 5, 5}, {6, 4, 3, 3}}, 1, false, {true, true, true});
  add_backward(samples, {{3, 6, 3, 3}, {3, 4, 5, 5}, {6, 4, 3, 3}}, 1, false, {true, true, false});
  add_backward(samples, {{4, 6, 3, 3}, {4, 4, 5, 5}, {6, 4, 3, 3}}, 1, false, {true, false, false});
  add_backward(samples, {{2, 8, 3, 3}, {2, 8, 5, 5}, {8, 2, 3, 3}}, 4, false, {true, true, true});
  add_backward(samples, {{2, 6, 4, 4}, {2, 4, 3, 3}, {4, 6, 2, 2}}, 1, true, {true, true, true});
}

} // namespace weft::testing
