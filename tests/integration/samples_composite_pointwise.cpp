#include "tests/integration/sample_inputs.h"

#include <ATen/core/Reduction.h>

namespace weft::testing {

namespace {

using Ints = std::vector<int64_t>;
using IValues = std::vector<c10::IValue>;

void add_casts(Samples& samples) {
  const auto values = floats({{5, 4}});
  for (const auto dtype : {at::kFloat, at::kDouble, at::kLong}) {
    samples.add_composite("aten::to.dtype", values, [=](const Inputs& t) { return IValues{t[0], dtype}; });
    samples.add_composite("aten::to.dtype_layout", values, [=](const Inputs& t) { return IValues{t[0], dtype}; });
    samples.add_composite(
        "aten::to.device", values, [=](const Inputs& t) { return IValues{t[0], at::Device(at::kCPU), dtype}; });
  }
  for (const auto* op : {"aten::type_as", "aten::to.other"}) {
    samples.add_composite(
        op, {values[0], whole_numbers({5, 4}, 9)}, [](const Inputs& t) { return IValues{t[0], t[1]}; });
    samples.add_composite(
        op, {values[0], sample_values({3}, 2).to(at::kDouble)}, [](const Inputs& t) { return IValues{t[0], t[1]}; });
  }
  samples.add_composite("aten::contiguous", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite("aten::contiguous", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0].t()}; });
}

void add_inactive(Samples& samples) {
  for (const auto* op :
       {"aten::dropout", "aten::feature_dropout", "aten::alpha_dropout", "aten::feature_alpha_dropout"}) {
    samples.add_composite(op, floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], 0.5, false}; });
    samples.add_composite(op, floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], 0.0, true}; });
  }
  samples.add_composite("aten::rrelu", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0] - 0.5}; });
}

void add_activations(Samples& samples) {
  samples.add_composite(
      "aten::prelu", floats({{5, 4, 2}, {4}}), [](const Inputs& t) { return IValues{t[0] - 0.5, t[1]}; });
  samples.add_composite(
      "aten::prelu", floats({{5, 4}, {1}}), [](const Inputs& t) { return IValues{t[0] - 0.5, t[1]}; });
  samples.add_composite("aten::selu", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0] - 0.5}; });
  samples.add_composite("aten::relu6", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0] * 9 - 1}; });
  for (const auto* op : {"aten::softmax.int", "aten::log_softmax.int"}) {
    samples.add_composite(op, floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], -1}; });
    samples.add_composite(op, floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], 0, at::kDouble}; });
  }
}

void add_composite_choices(Samples& samples) {
  const auto mask = whole_numbers({5, 1}, 2).to(at::kBool);
  const auto values = sample_values({5, 4}, 1);
  samples.add_composite("aten::where.Scalar", {mask}, [](const Inputs& t) { return IValues{t[0], 1.0, 2.0}; });
  samples.add_composite(
      "aten::where.ScalarSelf", {mask, values}, [](const Inputs& t) { return IValues{t[0], 2.0, t[1]}; });
  samples.add_composite(
      "aten::where.ScalarOther", {mask, values}, [](const Inputs& t) { return IValues{t[0], t[1], 2.0}; });
  for (const auto* op : {"aten::max.other", "aten::min.other"}) {
    samples.add_composite(op, floats({{5, 4}, {4}}), [](const Inputs& t) { return IValues{t[0], t[1]}; });
  }
  samples.add_composite("aten::clip", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], 0.3, 0.6}; });
  samples.add_composite(
      "aten::clip.Tensor", floats({{5, 4}, {4}}), [](const Inputs& t) { return IValues{t[0], t[1], c10::IValue()}; });
}

void add_arithmetic(Samples& samples) {
  for (const auto* op : {"aten::multiply", "aten::divide", "aten::true_divide", "aten::subtract"}) {
    const auto name = std::string(op);
    samples.add_composite(name + ".Tensor", floats({{5, 4}, {4}}), [](const Inputs& t) { return IValues{t[0], t[1]}; });
    samples.add_composite(name + ".Scalar", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], 2.0}; });
  }
  samples.add_composite("aten::divide.Tensor_mode", floats({{5, 4}, {4}}), [](const Inputs& t) {
    return IValues{t[0] * 9, t[1], "floor"};
  });
  samples.add_composite(
      "aten::einsum", floats({{2, 3, 4}, {5, 4, 2}}), [](const Inputs& t) { return IValues{"btd,edf->btef", t}; });
  samples.add_composite(
      "aten::einsum", floats({{2, 3, 5, 4}, {2, 3, 5}}), [](const Inputs& t) { return IValues{"bted,bte->btd", t}; });
  for (const auto* op : {"aten::outer", "aten::ger"}) {
    samples.add_composite(op, floats({{5}, {4}}), [](const Inputs& t) { return IValues{t[0], t[1]}; });
  }
  samples.add_composite(
      "aten::linalg_matmul", floats({{2, 5, 4}, {4, 3}}), [](const Inputs& t) { return IValues{t[0], t[1]}; });
}

void add_composite_reductions(Samples& samples) {
  for (const auto* op : {"aten::var.dim", "aten::std.dim", "aten::var_mean.dim", "aten::std_mean.dim"}) {
    samples.add_composite(op, floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], Ints{1}}; });
  }
  for (const auto* op : {"aten::var", "aten::std", "aten::var_mean", "aten::std_mean"}) {
    samples.add_composite(op, floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0]}; });
  }
  const auto none = c10::IValue();
  samples.add_composite("aten::linalg_norm", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite(
      "aten::linalg_norm", floats({{5, 4}}), [none](const Inputs& t) { return IValues{t[0], none, Ints{-1}, true}; });
  samples.add_composite("aten::linalg_norm.ord_str", floats({{3, 5, 4}}), [](const Inputs& t) {
    return IValues{t[0], "fro", Ints{1, 2}};
  });
  samples.add_composite("aten::nanmean", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], Ints{0}}; });
  samples.add_composite(
      "aten::special_logsumexp", floats({{5, 4}}), [](const Inputs& t) { return IValues{t[0], Ints{1}}; });
  samples.add_composite(
      "aten::cosine_similarity", floats({{5, 4}, {5, 4}}), [](const Inputs& t) { return IValues{t[0], t[1]}; });
  samples.add_composite(
      "aten::cosine_similarity", floats({{5, 4}, {3, 1, 4}}), [](const Inputs& t) { return IValues{t[0], t[1], -1}; });
}

void add_composite_lookups(Samples& samples) {
  const auto values = sample_values({5, 4}, 1);
  samples.add_composite("aten::argsort", {values}, [](const Inputs& t) { return IValues{t[0]}; });
  samples.add_composite("aten::argsort.stable", {values}, [](const Inputs& t) { return IValues{t[0], true, 0}; });
  samples.add_composite("aten::one_hot", {whole_numbers({5, 3}, 4)}, [](const Inputs& t) { return IValues{t[0], 4}; });
  samples.add_composite("aten::take_along_dim", {values, whole_numbers({5, 3}, 4)}, [](const Inputs& t) {
    return IValues{t[0], t[1], 1};
  });
  samples.add_composite("aten::take_along_dim", {values, whole_numbers({1, 3}, 4)}, [](const Inputs& t) {
    return IValues{t[0], t[1], 1};
  });
}

void add_losses(Samples& samples) {
  for (const auto reduction : {at::Reduction::None, at::Reduction::Sum, at::Reduction::Mean}) {
    const auto of_two = [&](const char* op) {
      samples.add_composite(
          op, floats({{5, 4}, {5, 4}}), [=](const Inputs& t) { return IValues{t[0], t[1], reduction}; });
    };
    of_two("aten::l1_loss");
    of_two("aten::kl_div");
    samples.add_composite("aten::hinge_embedding_loss", floats({{5, 4}, {4}}), [=](const Inputs& t) {
      return IValues{t[0], (t[1] - 0.5).sign(), 1.0, reduction};
    });
    samples.add_composite("aten::poisson_nll_loss", floats({{5, 4}, {5, 4}}), [=](const Inputs& t) {
      return IValues{t[0], t[1] * 9, true, true, 1e-8, reduction};
    });
    samples.add_composite("aten::margin_ranking_loss", floats({{5, 4}, {5, 4}, {4}}), [=](const Inputs& t) {
      return IValues{t[0], t[1], (t[2] - 0.5).sign(), 0.1, reduction};
    });
    const auto scores = sample_values({5, 4}, 1);
    const auto planes = sample_values({5, 4, 3}, 1);
    const auto none = c10::IValue();
    for (const auto* op : {"aten::nll_loss_nd", "aten::cross_entropy_loss"}) {
      samples.add_composite(
          op, {scores, whole_numbers({5}, 4)}, [=](const Inputs& t) { return IValues{t[0], t[1], none, reduction}; });
      samples.add_composite(op, {planes, whole_numbers({5, 3}, 4), sample_values({4}, 2)}, [=](const Inputs& t) {
        return IValues{t[0], t[1], t[2], reduction};
      });
    }
    samples.add_composite("aten::nll_loss", {scores, whole_numbers({5}, 4)}, [=](const Inputs& t) {
      return IValues{t[0], t[1], none, reduction};
    });
    samples.add_composite(
        "aten::nll_loss2d", {sample_values({3, 4, 2, 2}, 1), whole_numbers({3, 2, 2}, 4)},
        [=](const Inputs& t) { return IValues{t[0], t[1], none, reduction}; });
    samples.add_composite("aten::cross_entropy_loss", floats({{5, 4}, {5, 4}}), [=](const Inputs& t) {
      return IValues{t[0], t[1].softmax(1), none, reduction, -100, 0.1};
    });
  }
}

} // namespace

void add_composite_pointwise_samples(Samples& samples) {
  add_casts(samples);
  add_inactive(samples);
  add_activations(samples);
  add_composite_choices(samples);
  add_arithmetic(samples);
  add_composite_reductions(samples);
  add_composite_lookups(samples);
  add_losses(samples);
}

} // namespace weft::testing
