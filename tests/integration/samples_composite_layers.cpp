#include "tests/integration/oracle_composite.h"
#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

using Ints = std::vector<int64_t>;
using IValues = std::vector<c10::IValue>;

void add_convolutions(Samples& samples) {
  const auto conv = [&](const std::string& op, const Shapes& shapes, const IValues& rest) {
    samples.add_composite(op, floats(shapes), [=](const Inputs& t) {
      IValues values = {t[0], t[1], t.size() > 2 ? c10::IValue(t[2]) : c10::IValue()};
      values.insert(values.end(), rest.begin(), rest.end());
      return values;
    });
  };
  conv("aten::conv1d", {{3, 4, 5}, {6, 4, 3}, {6}}, {});
  conv("aten::conv2d", {{3, 4, 5, 5}, {6, 4, 3, 3}, {6}}, {Ints{2, 2}, Ints{1, 1}});
  conv("aten::conv2d", {{2, 6, 5, 5}, {4, 3, 3, 3}, {4}}, {Ints{1, 1}, Ints{0, 0}, Ints{1, 1}, 2});
  conv("aten::conv2d", {{2, 4, 5, 5}, {4, 1, 3, 3}}, {Ints{1, 1}, Ints{1, 1}, Ints{1, 1}, 4});
  conv("aten::conv2d", {{4, 5, 5}, {6, 4, 3, 3}}, {});
  conv("aten::conv2d.padding", {{2, 4, 5, 5}, {6, 4, 3, 3}, {6}}, {Ints{1, 1}, "same"});
  conv("aten::conv3d", {{2, 4, 3, 3, 3}, {2, 4, 2, 2, 2}, {2}}, {});
  conv("aten::conv_transpose1d", {{3, 4, 5}, {4, 6, 3}, {6}}, {});
  conv("aten::conv_transpose2d.input", {{2, 4, 5, 5}, {4, 6, 2, 2}, {6}}, {Ints{2, 2}});
  conv("aten::conv_transpose2d.input", {{2, 4, 5, 5}, {4, 3, 2, 2}, {6}}, {Ints{2, 2}, Ints{0, 0}, Ints{0, 0}, 2});
  conv("aten::conv_transpose3d.input", {{2, 4, 2, 2, 2}, {4, 2, 2, 2, 2}}, {});
}

void add_norms(Samples& samples) {
  samples.add_composite("aten::layer_norm", floats({{5, 3, 4}, {4}, {4}}), [](const Inputs& t) {
    return IValues{t[0], Ints{4}, t[1], t[2]};
  });
  samples.add_composite(
      "aten::layer_norm", floats({{5, 3, 4}}), [](const Inputs& t) { return IValues{t[0], Ints{3, 4}}; });
  samples.add_composite(
      "aten::rms_norm", floats({{5, 3, 4}, {4}}), [](const Inputs& t) { return IValues{t[0], Ints{4}, t[1]}; });
  samples.add_composite(
      "aten::group_norm", floats({{5, 6, 3}, {6}, {6}}), [](const Inputs& t) { return IValues{t[0], 2, t[1], t[2]}; });
  samples.add_composite("aten::group_norm", floats({{2, 8, 3, 2}}), [](const Inputs& t) { return IValues{t[0], 4}; });
  const auto none = c10::IValue();
  for (const std::string op : {"aten::batch_norm", "aten::instance_norm"}) {
    samples.add_composite(op, floats({{5, 6, 3}, {6}, {6}}), [=](const Inputs& t) {
      return IValues{t[0], t[1], t[2], none, none, true, 0.1, 1e-5, false};
    });
    samples.add_composite(op, floats({{5, 6, 3}, {6}, {6}, {6}, {6}}), [](const Inputs& t) {
      return IValues{t[0], t[1], t[2], t[3], t[4], false, 0.1, 1e-5, false};
    });
    // The running statistics are as the weight is, and come out changed.
    samples.add_with(op, floats({{5, 6, 3}, {6}, {6}}), without_gradients([op](const Inputs& t) {
                       const auto mean = at::zeros_like(t[1]);
                       const auto var = at::ones_like(t[1]);
                       auto all =
                           call_composite(operator_named(op), {t[0], t[1], t[2], mean, var, true, 0.1, 1e-5, false});
                       all.insert(all.end(), {mean, var});
                       return all;
                     }));
  }
}

void add_attention(Samples& samples) {
  const auto none = c10::IValue();
  const auto attend = [&](const Shapes& shapes, bool is_causal, bool shares) {
    samples.add_composite("aten::scaled_dot_product_attention", floats(shapes), [=](const Inputs& t) {
      return IValues{t[0], t[1], t[2], t.size() > 3 ? c10::IValue(t[3]) : none, 0.0, is_causal, none, shares};
    });
  };
  attend({{4, 2, 5, 4}, {4, 2, 3, 4}, {4, 2, 3, 4}}, false, false);
  attend({{4, 2, 5, 4}, {4, 2, 5, 4}, {4, 2, 5, 4}}, true, false);
  attend({{2, 4, 5, 4}, {2, 2, 3, 4}, {2, 2, 3, 4}}, false, true);
  attend({{2, 4, 5, 4}, {2, 2, 5, 4}, {2, 2, 5, 4}}, true, true);
  attend({{4, 2, 5, 4}, {4, 2, 3, 4}, {4, 2, 3, 4}, {5, 3}}, false, false);
  attend({{4, 2, 5, 4}, {4, 2, 3, 4}, {4, 2, 3, 4}, {4, 1, 1, 3}}, false, false);
  attend({{2, 4, 5, 4}, {2, 4, 3, 4}, {2, 4, 3, 4}, {1, 4, 5, 3}}, false, false);
  attend({{4, 5, 4}, {4, 3, 4}, {4, 3, 4}}, false, false);
  attend({{4, 5, 4}, {4, 5, 4}, {4, 5, 4}}, true, false);
  attend({{4, 5, 4}, {4, 3, 4}, {4, 3, 4}, {4, 5, 3}}, false, false);
  attend({{2, 4, 5, 4}, {2, 1, 3, 4}, {2, 1, 3, 4}}, false, true);
  for (const auto& shapes :
       {Shapes{{4, 2, 5, 4}, {4, 2, 3, 4}, {4, 2, 3, 4}}, Shapes{{4, 5, 4}, {4, 3, 4}, {4, 3, 4}}}) {
    samples.add_composite("aten::_scaled_dot_product_attention_math", floats(shapes), [](const Inputs& t) {
      return IValues{t[0], t[1], t[2]};
    });
  }
}

void add_planes(Samples& samples) {
  const auto pool = [&](const std::string& op, const Ints& shape, const IValues& rest) {
    samples.add_composite(op, floats({shape}), [=](const Inputs& t) {
      IValues values = {t[0]};
      values.insert(values.end(), rest.begin(), rest.end());
      return values;
    });
  };
  pool("aten::max_pool1d", {4, 3, 6}, {Ints{2}});
  pool("aten::max_pool2d", {4, 3, 6, 6}, {Ints{2, 3}});
  pool("aten::max_pool2d", {5, 6, 6}, {Ints{2, 2}});
  pool("aten::max_pool3d", {2, 3, 4, 4, 4}, {Ints{2, 2, 2}});
  pool("aten::avg_pool1d", {4, 3, 6}, {Ints{2}});
  pool("aten::adaptive_avg_pool1d", {4, 3, 6}, {Ints{2}});
  pool("aten::adaptive_avg_pool2d", {4, 3, 6, 6}, {Ints{1, 1}});
  pool("aten::adaptive_avg_pool2d", {4, 3, 6, 6}, {Ints{2, 4}});
  pool("aten::adaptive_avg_pool3d", {2, 3, 4, 4, 4}, {Ints{2, 3, 2}});
  pool("aten::adaptive_max_pool1d", {4, 3, 6}, {Ints{2}});
  const auto none = c10::IValue();
  const auto twice = [](size_t dims) { return std::vector<double>(dims, 2.0); };
  pool("aten::upsample_nearest1d.vec", {4, 3, 5}, {none, twice(1)});
  pool("aten::upsample_nearest2d.vec", {4, 3, 5, 2}, {none, twice(2)});
  pool("aten::upsample_nearest2d.vec", {4, 3, 5, 2}, {Ints{8, 4}, none});
  pool("aten::upsample_nearest3d.vec", {2, 3, 2, 2, 2}, {none, twice(3)});
  pool("aten::_upsample_nearest_exact2d.vec", {4, 3, 5, 2}, {none, twice(2)});
  pool("aten::upsample_linear1d.vec", {4, 3, 5}, {none, false, twice(1)});
  pool("aten::upsample_bilinear2d.vec", {4, 3, 5, 2}, {none, false, twice(2)});
  pool("aten::upsample_bilinear2d.vec", {4, 3, 5, 2}, {Ints{8, 4}, true, none});
  pool("aten::upsample_bicubic2d.vec", {4, 3, 5, 2}, {none, false, twice(2)});
  pool("aten::upsample_trilinear3d.vec", {2, 3, 2, 2, 2}, {none, false, twice(3)});
}

void add_recurrent(Samples& samples) {
  // Of two layers: the input has 3 elements, the state 2.
  const auto parameters = [](int64_t gates) {
    return Shapes{{gates * 2, 3}, {gates * 2, 2}, {gates * 2}, {gates * 2},
                  {gates * 2, 2}, {gates * 2, 2}, {gates * 2}, {gates * 2}};
  };
  const auto add = [&](const std::string& op, int64_t states, int64_t gates, bool samples_first) {
    Shapes shapes = {samples_first ? Ints{4, 5, 3} : Ints{5, 4, 3}};
    shapes.insert(shapes.end(), states, Ints{2, 4, 2});
    const auto all = parameters(gates);
    shapes.insert(shapes.end(), all.begin(), all.end());
    samples.add_composite(op, floats(shapes), [=](const Inputs& t) {
      const Inputs hidden(t.begin() + 1, t.begin() + 1 + states);
      const Inputs weights(t.begin() + 1 + states, t.end());
      const auto state = states == 1 ? c10::IValue(hidden[0]) : c10::IValue(hidden);
      return IValues{t[0], state, weights, true, 2, 0.0, false, false, samples_first};
    });
  };
  for (const bool samples_first : {false, true}) {
    add("aten::lstm.input", 2, 4, samples_first);
    add("aten::gru.input", 1, 3, samples_first);
    add("aten::rnn_tanh.input", 1, 1, samples_first);
    add("aten::rnn_relu.input", 1, 1, samples_first);
  }
}

void add_bags(Samples& samples) {
  const auto table = sample_values({7, 4}, 1);
  const auto numbers = whole_numbers({6}, 7);
  const auto offsets = at::tensor({0, 2, 4}, at::kLong);
  for (const int64_t mode : {0, 1, 2}) {
    samples.add_composite("aten::embedding_bag", {table, numbers, offsets}, [=](const Inputs& t) {
      return IValues{t[0], t[1], t[2], false, mode};
    });
    samples.add_composite("aten::embedding_bag.padding_idx", {table, numbers, offsets}, [=](const Inputs& t) {
      return IValues{t[0], t[1], t[2], false, mode, false, c10::IValue(), false, 1};
    });
  }
  samples.add_composite("aten::embedding_bag", {table, numbers, offsets, sample_values({6}, 2)}, [](const Inputs& t) {
    return IValues{t[0], t[1], t[2], false, 0, false, t[3]};
  });
}

} // namespace

void add_composite_layer_samples(Samples& samples) {
  add_convolutions(samples);
  add_norms(samples);
  add_attention(samples);
  add_planes(samples);
  add_recurrent(samples);
  add_bags(samples);
}

} // namespace weft::testing
