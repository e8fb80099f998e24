#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

void add_copies(Samples& samples) {
  samples.add("aten::_to_copy", {{5, 4}}, [](const Inputs& t) { return t[0].to(at::kDouble).to(at::kFloat); });
  samples.add("aten::_to_copy", {{5, 4}}, [](const Inputs& t) { return (t[0] * 9).to(at::kLong); });
  samples.add("aten::copy", {{5, 4}, {4}}, [](const Inputs& t) { return at::copy(t[0], t[1]); });
  samples.add("aten::copy", {{5, 4}, {}}, [](const Inputs& t) { return at::copy(t[0], t[1]); });
  samples.add_with(
      "aten::copy", {whole_numbers({5, 4}, 9), sample_values({5, 4}, 1)},
      without_gradients([](const Inputs& t) { return Inputs{at::copy(t[0], t[1] * 9)}; }));
  samples.add("aten::fill", {{5, 4}, {}}, [](const Inputs& t) { return at::fill(t[0], t[1]); });
  samples.add("aten::fill", {{5, 4}}, [](const Inputs& t) { return at::fill(t[0], 3); });
  samples.add("aten::zero", {{5, 4}}, [](const Inputs& t) { return (t[0] * 2).zero_() + t[0]; });
  samples.add("aten::clone", {{}}, [](const Inputs& t) { return t[0].clone(); });
}

void add_choices(Samples& samples) {
  samples.add("aten::where", {{5, 4}, {5, 4}}, [](const Inputs& t) { return at::where(t[0] > t[1], t[0], t[1]); });
  const auto mask = whole_numbers({5, 1}, 2).to(at::kBool);
  samples.add_with("aten::where", {mask, sample_values({5, 4}, 1), sample_values({4}, 2)}, [](const Inputs& t) {
    return Inputs{at::where(t[0], t[1], t[2])};
  });
  samples.add_with("aten::where", {mask, sample_values({5, 4}, 1)}, [](const Inputs& t) {
    return Inputs{at::where(t[0], t[1], 2)};
  });
  samples.add_with("aten::masked_fill", {sample_values({5, 4}, 1), mask}, [](const Inputs& t) {
    return Inputs{t[0].masked_fill(t[1], 2)};
  });
  samples.add_with("aten::masked_fill", {sample_values({5, 4}, 1), mask, sample_values({}, 2)}, [](const Inputs& t) {
    return Inputs{t[0].masked_fill(t[1], t[2])};
  });
  samples.add("aten::clamp", {{5, 4}, {4}, {5, 1}}, [](const Inputs& t) { return at::clamp(t[0], t[1], t[2]); });
  samples.add("aten::clamp", {{5, 4}}, [](const Inputs& t) { return at::clamp(t[0], 0.3, 0.6); });
  samples.add("aten::maximum", {{5, 4}, {4}}, [](const Inputs& t) { return at::maximum(t[0], t[1]); });
  samples.add("aten::minimum", {{5, 1}, {4}}, [](const Inputs& t) { return at::minimum(t[0], t[1]); });
}

void add_whole_numbers(Samples& samples) {
  const Inputs two = {whole_numbers({5, 4}, 9, 1), whole_numbers({4}, 9, 2)};
  samples.add_with("aten::bitwise_and", two, [](const Inputs& t) { return Inputs{t[0] & t[1]}; });
  samples.add_with("aten::bitwise_or", two, [](const Inputs& t) { return Inputs{t[0] | t[1]}; });
  samples.add_with("aten::bitwise_xor", two, [](const Inputs& t) { return Inputs{t[0] ^ t[1]}; });
  samples.add_with("aten::bitwise_not", two, [](const Inputs& t) { return Inputs{at::bitwise_not(t[0])}; });
  samples.add_with("aten::__lshift__", two, [](const Inputs& t) { return Inputs{at::__lshift__(t[0], t[1])}; });
  samples.add_with("aten::bitwise_right_shift", two, [](const Inputs& t) {
    return Inputs{at::bitwise_right_shift(t[0] * 9, t[1])};
  });
  samples.add_with("aten::gcd", two, [](const Inputs& t) { return Inputs{at::gcd(t[0], t[1])}; });
  samples.add_with("aten::lcm", two, [](const Inputs& t) { return Inputs{at::lcm(t[0], t[1])}; });
  samples.add_with("aten::add", two, [](const Inputs& t) { return Inputs{at::add(t[0], t[1], 2)}; });
  const auto truth = whole_numbers({5, 4}, 2).to(at::kBool);
  samples.add_with(
      "aten::mul", {sample_values({5, 4}, 1), truth}, [](const Inputs& t) { return Inputs{at::mul(t[0], t[1])}; });
  samples.add_with("aten::logical_and", {truth, truth}, [](const Inputs& t) {
    return Inputs{at::logical_and(t[0], at::logical_not(t[1]))};
  });
}

} // namespace

void add_pointwise_samples(Samples& samples) {
  // Away from where the quotient jumps.
  samples.add("aten::remainder", {{5, 4}, {5, 4}}, [](const Inputs& t) { return at::remainder(t[0], t[1] + 2); });
  samples.add("aten::fmod", {{5, 4}, {4}}, [](const Inputs& t) { return at::fmod(t[0], t[1] + 2); });
  samples.add("aten::add", {{5, 1, 4}, {3, 1}}, [](const Inputs& t) { return at::add(t[0], t[1], 2); });
  samples.add("aten::add", {{5, 4}}, [](const Inputs& t) { return t[0] + 1; });
  samples.add("aten::sub", {{5, 4}, {}}, [](const Inputs& t) { return t[0] - t[1]; });
  samples.add("aten::rsub", {{5, 4}, {4}}, [](const Inputs& t) { return at::rsub(t[0], t[1], 2); });
  samples.add("aten::rsub", {{5, 4}}, [](const Inputs& t) { return 1 - t[0]; });
  samples.add("aten::mul", {{5, 4}, {5, 1}}, [](const Inputs& t) { return t[0] * t[1]; });
  samples.add("aten::mul", {{5, 4}}, [](const Inputs& t) { return t[0] * 3; });
  samples.add("aten::mul", {{}, {}}, [](const Inputs& t) { return t[0] * t[1]; });
  samples.add("aten::div", {{5, 4}, {4}}, [](const Inputs& t) { return t[0] / t[1]; });
  samples.add("aten::div", {{5, 4}, {4}}, [](const Inputs& t) { return at::div(t[0] * 9, t[1], "floor"); });
  samples.add("aten::addcmul", {{5, 4}, {5, 4}, {4}}, [](const Inputs& t) { return at::addcmul(t[0], t[1], t[2], 2); });
  samples.add("aten::addcdiv", {{5, 4}, {5, 4}, {4}}, [](const Inputs& t) { return at::addcdiv(t[0], t[1], t[2], 2); });
  samples.add("aten::lerp", {{5, 4}, {5, 4}, {4}}, [](const Inputs& t) { return at::lerp(t[0], t[1], t[2]); });
  samples.add("aten::lerp", {{5, 4}, {4}}, [](const Inputs& t) { return at::lerp(t[0], t[1], 0.3); });
  samples.add("aten::_prelu_kernel", {{5, 4, 2}, {4}}, [](const Inputs& t) { return at::prelu(t[0] - 0.5, t[1]); });
  // Their gradients are plain zeros, which know of no mesh.
  samples.add_with(
      "aten::sgn", floats({{5, 4}}), without_gradients([](const Inputs& t) { return Inputs{at::sgn(t[0] - 0.5)}; }));
  samples.add_with("aten::nextafter", floats({{5, 4}, {4}}), without_gradients([](const Inputs& t) {
                     return Inputs{at::nextafter(t[0], t[1])};
                   }));
  samples.add_with("aten::copysign", floats({{5, 4}, {4}}), without_gradients([](const Inputs& t) {
                     return Inputs{at::copysign(t[0], t[1] - 0.5)};
                   }));
  samples.add_with(
      "aten::rrelu_with_noise_backward", floats({{5, 4}, {5, 4}, {5, 4}}), without_gradients([](const Inputs& t) {
        return Inputs{at::rrelu_with_noise_backward(t[0], t[1] - 0.5, t[2], 0.1, 0.3, true, false)};
      }));
  samples.add("aten::log_sigmoid_backward", {{5, 4}}, [](const Inputs& t) { return at::log_sigmoid(t[0]); });
  add_copies(samples);
  add_choices(samples);
  add_whole_numbers(samples);
}

} // namespace weft::testing
