#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;
using Mask = std::array<bool, 3>;

void add_layer_norm(Samples& samples) {
  samples.add("aten::native_layer_norm", {{5, 4}, {4}, {4}}, [](const Inputs& t) {
    return at::layer_norm(t[0], {4}, t[1], t[2], kEpsilon);
  });
  samples.add("aten::native_layer_norm", {{2, 5, 4}, {5, 4}}, [](const Inputs& t) {
    return at::layer_norm(t[0], {5, 4}, t[1], {}, kEpsilon);
  });
  samples.add("aten::native_layer_norm", {{2, 5, 4}}, [](const Inputs& t) {
    return at::layer_norm(t[0], {4}, {}, {}, kEpsilon);
  });
  samples.add_with("aten::native_layer_norm", floats({{2, 5, 4}, {4}, {4}}), without_gradients([](const Inputs& t) {
                     return results(at::native_layer_norm(t[0], {4}, t[1], t[2], kEpsilon));
                   }));
  samples.add_with(
      "aten::native_layer_norm_backward", floats({{5, 4}, {5, 4}, {5, 1}, {5, 1}, {4}, {4}}),
      without_gradients([](const Inputs& t) {
        return results(at::native_layer_norm_backward(t[0], t[1], {4}, t[2], t[3], t[4], t[5], Mask{true, true, true}));
      }));
  samples.add_with(
      "aten::native_layer_norm_backward", floats({{2, 5, 4}, {2, 5, 4}, {2, 1, 1}, {2, 1, 1}}),
      without_gradients([](const Inputs& t) {
        return results(
            at::native_layer_norm_backward(t[0], t[1], {5, 4}, t[2], t[3], {}, {}, Mask{true, false, false}));
      }));
  samples.add("aten::rms_norm", {{5, 4}, {4}}, [](const Inputs& t) { return at::rms_norm(t[0], {4}, t[1], kEpsilon); });
}

void add_group_norm(Samples& samples) {
  samples.add("aten::native_group_norm", {{5, 6, 3}, {6}, {6}}, [](const Inputs& t) {
    return at::group_norm(t[0], 3, t[1], t[2], kEpsilon);
  });
  samples.add("aten::native_group_norm", {{4, 6, 2, 2}}, [](const Inputs& t) {
    return at::group_norm(t[0], 2, {}, {}, kEpsilon);
  });
  samples.add_with("aten::native_group_norm", floats({{4, 8, 3}, {8}, {8}}), without_gradients([](const Inputs& t) {
                     return results(at::native_group_norm(t[0], t[1], t[2], 4, 8, 3, 4, kEpsilon));
                   }));
  samples.add_with(
      "aten::native_group_norm_backward", floats({{5, 6, 3}, {5, 6, 3}, {5, 3}, {5, 3}, {6}}),
      without_gradients([](const Inputs& t) {
        return results(
            at::native_group_norm_backward(t[0], t[1], t[2], t[3], t[4], 5, 6, 3, 3, Mask{true, true, true}));
      }));
}

void add_batch_norm(Samples& samples) {
  samples.add("aten::native_batch_norm", {{5, 6, 3}, {6}, {6}}, [](const Inputs& t) {
    return at::batch_norm(t[0], t[1], t[2], {}, {}, /*training=*/true, kMomentum, kEpsilon, false);
  });
  samples.add("aten::native_batch_norm", {{6, 5}}, [](const Inputs& t) {
    return at::batch_norm(t[0], {}, {}, {}, {}, /*training=*/true, kMomentum, kEpsilon, false);
  });
  // The running statistics are as the weight is, and come out changed.
  samples.add_with("aten::native_batch_norm", floats({{5, 6, 3}, {6}, {6}}), [](const Inputs& t) {
    const auto mean = at::zeros_like(t[1]);
    const auto var = at::ones_like(t[1]);
    const auto output = at::batch_norm(t[0], t[1], t[2], mean, var, /*training=*/true, kMomentum, kEpsilon, false);
    return Inputs{output, mean, var};
  });
  samples.add("aten::native_batch_norm", {{5, 6, 3}, {6}, {6}, {6}, {6}}, [](const Inputs& t) {
    return at::batch_norm(
        t[0], t[1], t[2], t[3].detach(), t[4].detach(), /*training=*/false, kMomentum, kEpsilon, false);
  });
  samples.add_with(
      "aten::_native_batch_norm_legit", floats({{5, 6, 3}, {6}, {6}}), without_gradients([](const Inputs& t) {
        auto mean = at::zeros_like(t[1]);
        auto var = at::ones_like(t[1]);
        auto all = results(at::_native_batch_norm_legit(t[0], t[1], t[2], mean, var, true, kMomentum, kEpsilon));
        all.insert(all.end(), {mean, var});
        return all;
      }));
  samples.add_with(
      "aten::_native_batch_norm_legit", floats({{5, 6, 3}, {6}, {6}}), without_gradients([](const Inputs& t) {
        return results(at::_native_batch_norm_legit(t[0], t[1], t[2], /*training=*/true, kMomentum, kEpsilon));
      }));
  samples.add_with(
      "aten::_native_batch_norm_legit_no_training", floats({{5, 6, 3}, {6}, {6}, {6}, {6}}),
      without_gradients([](const Inputs& t) {
        return results(at::_native_batch_norm_legit_no_training(t[0], t[1], t[2], t[3], t[4], kMomentum, kEpsilon));
      }));
  for (const bool training : {true, false}) {
    samples.add_with(
        "aten::_native_batch_norm_legit_functional", floats({{5, 6, 3}, {6}, {6}, {6}, {6}}),
        without_gradients([training](const Inputs& t) {
          return results(
              at::_native_batch_norm_legit_functional(t[0], t[1], t[2], t[3], t[4], training, kMomentum, kEpsilon));
        }));
    samples.add_with(
        "aten::native_batch_norm_backward", floats({{5, 6, 3}, {5, 6, 3}, {6}, {6}, {6}, {6}, {6}}),
        without_gradients([training](const Inputs& t) {
          return results(at::native_batch_norm_backward(
              t[0], t[1], t[2], t[3], t[4], t[5], t[6], training, kEpsilon, Mask{true, true, true}));
        }));
  }
  samples.add_with(
      "aten::_batch_norm_with_update_functional", floats({{5, 6, 3}, {6}, {6}, {6}, {6}}),
      without_gradients([](const Inputs& t) {
        return results(at::_batch_norm_with_update_functional(t[0], t[1], t[2], t[3], t[4], kMomentum, kEpsilon));
      }));
  samples.add_with(
      "aten::batch_norm_backward", floats({{5, 6, 3}, {5, 6, 3}, {6}, {6}, {6}, {6}}),
      without_gradients([](const Inputs& t) {
        const auto reserve =
            std::get<3>(at::_batch_norm_with_update_functional(t[1], t[2], {}, t[4], t[5], kMomentum, kEpsilon));
        return results(at::batch_norm_backward(
            t[0], t[1], t[2], t[4], t[5], t[3], t[4], true, kEpsilon, Mask{true, true, true}, reserve));
      }));
}

} // namespace

void add_norm_samples(Samples& samples) {
  add_layer_norm(samples);
  add_group_norm(samples);
  add_batch_norm(samples);
}

} // namespace weft::testing
