#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

void add_pools(Samples& samples) {
  for (const auto& shape : Shapes{{4, 3, 6, 6}, {5, 6, 6}}) {
    samples.add_with("aten::max_pool2d_with_indices", floats({shape}), [](const Inputs& t) {
      return results(at::max_pool2d_with_indices(t[0], {3, 2}, {2, 2}, {1, 0}));
    });
    samples.add("aten::avg_pool2d", {shape}, [](const Inputs& t) { return at::avg_pool2d(t[0], {2, 3}); });
    samples.add(
        "aten::_adaptive_avg_pool2d", {shape}, [](const Inputs& t) { return at::_adaptive_avg_pool2d(t[0], {2, 4}); });
    samples.add_with("aten::adaptive_max_pool2d", floats({shape}), [](const Inputs& t) {
      return results(at::adaptive_max_pool2d(t[0], {2, 4}));
    });
  }
  const Shapes volume = {{2, 3, 4, 4, 4}};
  samples.add_with("aten::max_pool3d_with_indices", floats(volume), [](const Inputs& t) {
    return results(at::max_pool3d_with_indices(t[0], {2, 2, 2}));
  });
  samples.add("aten::avg_pool3d", volume, [](const Inputs& t) { return at::avg_pool3d(t[0], {2, 2, 2}); });
  samples.add(
      "aten::_adaptive_avg_pool3d", volume, [](const Inputs& t) { return at::_adaptive_avg_pool3d(t[0], {2, 3, 2}); });
  samples.add_with("aten::adaptive_max_pool3d", floats(volume), [](const Inputs& t) {
    return results(at::adaptive_max_pool3d(t[0], {2, 3, 2}));
  });
}

void add_pools_backward(Samples& samples) {
  const auto inputs = floats({{4, 3, 3, 3}, {4, 3, 6, 6}});
  samples.add_with(
      "aten::max_pool2d_with_indices_backward", inputs, without_gradients([](const Inputs& t) {
        const auto indices = std::get<1>(at::max_pool2d_with_indices(t[1], {2, 2}));
        return Inputs{at::max_pool2d_with_indices_backward(t[0], t[1], {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, indices)};
      }));
  samples.add_with("aten::adaptive_max_pool2d_backward", inputs, without_gradients([](const Inputs& t) {
                     const auto indices = std::get<1>(at::adaptive_max_pool2d(t[1], {3, 3}));
                     return Inputs{at::adaptive_max_pool2d_backward(t[0], t[1], indices)};
                   }));
  samples.add_with(
      "aten::avg_pool2d_backward", inputs, without_gradients([](const Inputs& t) {
        return Inputs{at::avg_pool2d_backward(t[0], t[1], {2, 2}, {2, 2}, {0, 0}, false, true, std::nullopt)};
      }));
  samples.add_with("aten::_adaptive_avg_pool2d_backward", inputs, without_gradients([](const Inputs& t) {
                     return Inputs{at::_adaptive_avg_pool2d_backward(t[0], t[1])};
                   }));
}

void add_pads_and_columns(Samples& samples) {
  for (const auto& shape : Shapes{{4, 3, 6}, {5, 6}}) {
    samples.add("aten::reflection_pad1d", {shape}, [](const Inputs& t) { return at::reflection_pad1d(t[0], {1, 2}); });
    samples.add(
        "aten::replication_pad1d", {shape}, [](const Inputs& t) { return at::replication_pad1d(t[0], {1, 2}); });
  }
  for (const auto& shape : Shapes{{4, 3, 6, 5}, {5, 6, 5}}) {
    samples.add(
        "aten::reflection_pad2d", {shape}, [](const Inputs& t) { return at::reflection_pad2d(t[0], {1, 2, 0, 1}); });
    samples.add(
        "aten::replication_pad2d", {shape}, [](const Inputs& t) { return at::replication_pad2d(t[0], {1, 2, 0, 1}); });
    samples.add(
        "aten::im2col", {shape}, [](const Inputs& t) { return at::im2col(t[0], {2, 3}, {1, 1}, {0, 1}, {1, 1}); });
  }
  samples.add("aten::reflection_pad3d", {{4, 3, 3, 4, 2}}, [](const Inputs& t) {
    return at::reflection_pad3d(t[0], {1, 1, 1, 0, 0, 1});
  });
  samples.add("aten::replication_pad3d", {{4, 3, 3, 4, 2}}, [](const Inputs& t) {
    return at::replication_pad3d(t[0], {1, 1, 1, 0, 0, 1});
  });
  for (const auto& shape : Shapes{{4, 12, 9}, {12, 9}}) {
    samples.add("aten::col2im", {shape}, [](const Inputs& t) {
      return at::col2im(t[0], {4, 4}, {2, 2}, {1, 1}, {0, 0}, {1, 1});
    });
  }
}

void add_upsampling(Samples& samples) {
  samples.add("aten::upsample_nearest1d", {{4, 3, 5}}, [](const Inputs& t) {
    return at::upsample_nearest1d(t[0], at::IntArrayRef{8});
  });
  samples.add(
      "aten::upsample_nearest2d", {{4, 3, 5, 2}}, [](const Inputs& t) { return at::upsample_nearest2d(t[0], {8, 4}); });
  samples.add("aten::_upsample_nearest_exact2d", {{4, 3, 5, 2}}, [](const Inputs& t) {
    return at::_upsample_nearest_exact2d(t[0], {8, 4});
  });
  samples.add("aten::upsample_nearest3d", {{2, 5, 3, 3, 2}}, [](const Inputs& t) {
    return at::upsample_nearest3d(t[0], {4, 4, 4});
  });
  samples.add("aten::upsample_linear1d", {{4, 3, 5}}, [](const Inputs& t) {
    return at::upsample_linear1d(t[0], at::IntArrayRef{8}, /*align_corners=*/false);
  });
  samples.add("aten::upsample_bilinear2d", {{4, 3, 5, 2}}, [](const Inputs& t) {
    return at::upsample_bilinear2d(t[0], {8, 4}, /*align_corners=*/true);
  });
  samples.add("aten::upsample_bicubic2d", {{4, 3, 5, 2}}, [](const Inputs& t) {
    return at::upsample_bicubic2d(t[0], {8, 4}, /*align_corners=*/false);
  });
  samples.add("aten::_upsample_bilinear2d_aa", {{4, 3, 5, 6}}, [](const Inputs& t) {
    return at::_upsample_bilinear2d_aa(t[0], {3, 4}, /*align_corners=*/false);
  });
  samples.add("aten::upsample_trilinear3d", {{2, 5, 3, 3, 2}}, [](const Inputs& t) {
    return at::upsample_trilinear3d(t[0], {4, 4, 4}, /*align_corners=*/false);
  });
  samples.add_with(
      "aten::upsample_bilinear2d_backward", floats({{4, 3, 8, 4}}), without_gradients([](const Inputs& t) {
        return Inputs{at::upsample_bilinear2d_backward(t[0], {8, 4}, {4, 3, 5, 2}, /*align_corners=*/true)};
      }));
}

} // namespace

void add_spatial_samples(Samples& samples) {
  add_pools(samples);
  add_pads_and_columns(samples);
  add_pools_backward(samples);
  add_upsampling(samples);
  samples.add("aten::pixel_shuffle", {{2, 12, 3, 4}}, [](const Inputs& t) { return at::pixel_shuffle(t[0], 2); });
  samples.add("aten::pixel_shuffle", {{18, 2, 3}}, [](const Inputs& t) { return at::pixel_shuffle(t[0], 3); });
  samples.add("aten::pixel_unshuffle", {{3, 2, 6, 4}}, [](const Inputs& t) { return at::pixel_unshuffle(t[0], 2); });
  samples.add("aten::channel_shuffle", {{2, 12, 3}}, [](const Inputs& t) { return at::channel_shuffle(t[0], 4); });
  samples.add("aten::glu", {{5, 6}}, [](const Inputs& t) { return at::glu(t[0], -1); });
  samples.add("aten::glu", {{4, 3}}, [](const Inputs& t) { return at::glu(t[0], 0); });
  samples.add_with("aten::glu_backward", floats({{5, 3}, {5, 6}}), without_gradients([](const Inputs& t) {
                     return Inputs{at::glu_backward(t[0], t[1], 1)};
                   }));
}

} // namespace weft::testing
