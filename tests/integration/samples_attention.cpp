#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

/// Query, key and value.
Shapes heads_of(int64_t samples, int64_t query_heads, int64_t key_heads) {
  return {{samples, query_heads, 5, 4}, {samples, key_heads, 3, 4}, {samples, key_heads, 3, 4}};
}

Shapes with(Shapes shapes, std::vector<int64_t> another) {
  shapes.push_back(std::move(another));
  return shapes;
}

void add_forward(Samples& samples, const Shapes& shapes, bool causal, bool shared) {
  samples.add("aten::_scaled_dot_product_flash_attention_for_cpu", shapes, [=](const Inputs& t) {
    return at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0, causal, {}, shared);
  });
}

void add_masked(Samples& samples, const Shapes& shapes) {
  samples.add("aten::_scaled_dot_product_flash_attention_for_cpu", shapes, [](const Inputs& t) {
    return at::scaled_dot_product_attention(t[0], t[1], t[2], t[3].detach());
  });
}

} // namespace

void add_attention_samples(Samples& samples) {
  add_forward(samples, heads_of(5, 3, 3), /*causal=*/false, /*shared=*/false);
  add_forward(samples, heads_of(2, 4, 4), /*causal=*/true, /*shared=*/false);
  add_forward(samples, heads_of(4, 4, 2), /*causal=*/false, /*shared=*/true);
  add_forward(samples, heads_of(3, 6, 1), /*causal=*/false, /*shared=*/true);
  add_masked(samples, with(heads_of(4, 3, 3), {5, 3}));
  add_masked(samples, with(heads_of(4, 3, 3), {4, 1, 5, 3}));
  add_masked(samples, with(heads_of(2, 4, 4), {1, 4, 5, 3}));
  samples.add_with(
      "aten::_scaled_dot_product_flash_attention_for_cpu", floats(heads_of(4, 6, 6)),
      without_gradients(
          [](const Inputs& t) { return results(at::_scaled_dot_product_flash_attention_for_cpu(t[0], t[1], t[2])); }));
  const auto add_backward = [&](const std::vector<int64_t>& query, const std::vector<int64_t>& key,
                                const Shapes& masks) {
    Shapes shapes = {query, query, key, key, query, {query[0], query[1], query[2]}};
    shapes.insert(shapes.end(), masks.begin(), masks.end());
    samples.add_with(
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward", floats(shapes),
        without_gradients([](const Inputs& t) {
          const auto mask = t.size() > 6 ? std::optional(t[6]) : std::nullopt;
          return results(at::_scaled_dot_product_flash_attention_for_cpu_backward(
              t[0], t[1], t[2], t[3], t[4], t[5], /*dropout_p=*/0, /*is_causal=*/false, mask));
        }));
  };
  add_backward({4, 3, 5, 4}, {4, 3, 3, 4}, {});
  add_backward({4, 6, 5, 4}, {4, 3, 3, 4}, {});
  add_backward({2, 4, 5, 4}, {2, 4, 3, 4}, {{2, 1, 5, 3}});
}

} // namespace weft::testing
