#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

constexpr auto kReductions = {at::Reduction::None, at::Reduction::Mean, at::Reduction::Sum};

/// The gradient of a loss: per element, or a number.
std::vector<int64_t> gradient_shape(std::vector<int64_t> loss, int64_t reduction) {
  return reduction == at::Reduction::None ? std::move(loss) : std::vector<int64_t>{};
}

void add_elementwise(Samples& samples, at::Reduction::Reduction reduction) {
  samples.add("aten::mse_loss", {{5, 4}, {5, 4}}, [=](const Inputs& t) { return at::mse_loss(t[0], t[1], reduction); });
  samples.add("aten::mse_loss", {{5, 4}, {4}}, [=](const Inputs& t) { return at::mse_loss(t[0], t[1], reduction); });
  samples.add("aten::smooth_l1_loss", {{5, 4}, {5, 4}}, [=](const Inputs& t) {
    return at::smooth_l1_loss(t[0], t[1], reduction, /*beta=*/0.2);
  });
  samples.add("aten::huber_loss", {{5, 4}, {5, 4}}, [=](const Inputs& t) {
    return at::huber_loss(t[0], t[1], reduction, /*delta=*/0.2);
  });
  samples.add("aten::soft_margin_loss", {{5, 4}, {5, 4}}, [=](const Inputs& t) {
    return at::soft_margin_loss(t[0], t[1].detach(), reduction);
  });
  samples.add("aten::binary_cross_entropy", {{5, 4}, {5, 4}}, [=](const Inputs& t) {
    return at::binary_cross_entropy(t[0], t[1].detach(), {}, reduction);
  });
  samples.add("aten::binary_cross_entropy", {{5, 4}, {5, 4}, {4}}, [=](const Inputs& t) {
    return at::binary_cross_entropy(t[0], t[1].detach(), t[2].detach(), reduction);
  });
  samples.add("aten::binary_cross_entropy_with_logits", {{5, 4}, {5, 4}}, [=](const Inputs& t) {
    return at::binary_cross_entropy_with_logits(t[0], t[1].detach(), {}, {}, reduction);
  });
  samples.add("aten::binary_cross_entropy_with_logits", {{5, 4}, {5, 4}, {5, 1}, {4}}, [=](const Inputs& t) {
    return at::binary_cross_entropy_with_logits(t[0], t[1].detach(), t[2].detach(), t[3].detach(), reduction);
  });
  samples.add("aten::l1_loss", {{5, 4}, {5, 4}}, [=](const Inputs& t) { return at::l1_loss(t[0], t[1], reduction); });
  samples.add("aten::kl_div", {{5, 4}, {5, 4}}, [=](const Inputs& t) { return at::kl_div(t[0], t[1], reduction); });
}

void add_elementwise_backward(Samples& samples, at::Reduction::Reduction reduction) {
  const auto inputs = floats({gradient_shape({5, 4}, reduction), {5, 4}, {5, 4}});
  const auto add = [&](const std::string& op, std::function<at::Tensor(const Inputs&)> call) {
    samples.add_with(
        op, inputs, without_gradients([call = std::move(call)](const Inputs& t) { return Inputs{call(t)}; }));
  };
  add("aten::mse_loss_backward", [=](const Inputs& t) { return at::mse_loss_backward(t[0], t[1], t[2], reduction); });
  add("aten::smooth_l1_loss_backward",
      [=](const Inputs& t) { return at::smooth_l1_loss_backward(t[0], t[1], t[2], reduction, 0.2); });
  add("aten::huber_loss_backward",
      [=](const Inputs& t) { return at::huber_loss_backward(t[0], t[1], t[2], reduction, 0.2); });
  add("aten::soft_margin_loss_backward",
      [=](const Inputs& t) { return at::soft_margin_loss_backward(t[0], t[1], t[2], reduction); });
  add("aten::binary_cross_entropy_backward",
      [=](const Inputs& t) { return at::binary_cross_entropy_backward(t[0], t[1], t[2], {}, reduction); });
}

void add_of_classes(Samples& samples, at::Reduction::Reduction reduction) {
  const Inputs rows = {sample_values({5, 4}, 1), whole_numbers({5}, 4)};
  const Inputs weighted_rows = {sample_values({5, 4}, 1), whole_numbers({5}, 4), sample_values({4}, 2)};
  samples.add_with("aten::nll_loss_forward", rows, [=](const Inputs& t) {
    return Inputs{at::cross_entropy_loss(t[0], t[1], {}, reduction)};
  });
  samples.add_with("aten::nll_loss_forward", weighted_rows, [=](const Inputs& t) {
    return Inputs{at::nll_loss(t[0], t[1], t[2].detach(), reduction, /*ignore_index=*/1)};
  });
  samples.add_with("aten::nll_loss_forward", weighted_rows, without_gradients([=](const Inputs& t) {
                     return results(at::nll_loss_forward(t[0], t[1], t[2], reduction, -100));
                   }));
  samples.add_with(
      "aten::nll_loss_forward", {sample_values({4}, 1), whole_numbers({}, 4)}, without_gradients([=](const Inputs& t) {
        return results(at::nll_loss_forward(t[0], t[1], {}, reduction, -100));
      }));
  samples.add_with(
      "aten::nll_loss2d_forward", {sample_values({4, 3, 2, 5}, 1), whole_numbers({4, 2, 5}, 3), sample_values({3}, 2)},
      [=](const Inputs& t) {
        return Inputs{at::nll_loss2d(t[0], t[1], t[2].detach(), reduction, /*ignore_index=*/1)};
      });
  samples.add_with(
      "aten::nll_loss_backward",
      {sample_values(gradient_shape({5}, reduction), 1), sample_values({5, 4}, 2), whole_numbers({5}, 4),
       sample_values({4}, 3), sample_values({}, 4)},
      without_gradients([=](const Inputs& t) {
        return Inputs{at::nll_loss_backward(t[0], t[1], t[2], t[3], reduction, /*ignore_index=*/1, t[4])};
      }));
  samples.add_with(
      "aten::nll_loss2d_backward",
      {sample_values(gradient_shape({4, 2, 5}, reduction), 1), sample_values({4, 3, 2, 5}, 2),
       whole_numbers({4, 2, 5}, 3), sample_values({}, 3)},
      without_gradients([=](const Inputs& t) {
        return Inputs{at::nll_loss2d_backward(t[0], t[1], t[2], {}, reduction, /*ignore_index=*/1, t[3])};
      }));
}

void add_margins(Samples& samples, at::Reduction::Reduction reduction) {
  samples.add_with(
      "aten::multi_margin_loss", {sample_values({5, 4}, 1), whole_numbers({5}, 4), sample_values({4}, 2)},
      [=](const Inputs& t) {
        return Inputs{at::multi_margin_loss(t[0], t[1], /*p=*/2, /*margin=*/1, t[2].detach(), reduction)};
      });
  samples.add_with(
      "aten::multi_margin_loss_backward",
      {sample_values(gradient_shape({5}, reduction), 1), sample_values({5, 4}, 2), whole_numbers({5}, 4)},
      without_gradients([=](const Inputs& t) {
        return Inputs{at::multi_margin_loss_backward(t[0], t[1], t[2], /*p=*/1, /*margin=*/1, {}, reduction)};
      }));
  samples.add_with(
      "aten::multilabel_margin_loss_forward", {sample_values({5, 4}, 1), whole_numbers({5, 4}, 5) - 1},
      [=](const Inputs& t) { return Inputs{at::multilabel_margin_loss(t[0], t[1], reduction)}; });
  samples.add_with(
      "aten::multilabel_margin_loss_backward",
      {sample_values(gradient_shape({5}, reduction), 1), sample_values({5, 4}, 2), whole_numbers({5, 4}, 5) - 1},
      without_gradients([=](const Inputs& t) {
        const auto is_target = std::get<1>(at::multilabel_margin_loss_forward(t[1], t[2], reduction));
        return Inputs{at::multilabel_margin_loss_backward(t[0], t[1], t[2], reduction, is_target)};
      }));
}

} // namespace

void add_loss_samples(Samples& samples) {
  for (const auto reduction : kReductions) {
    add_elementwise(samples, reduction);
    add_elementwise_backward(samples, reduction);
    add_of_classes(samples, reduction);
    add_margins(samples, reduction);
  }
}

} // namespace weft::testing
