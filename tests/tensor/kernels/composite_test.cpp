#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/scopes.h"
#include "weft/tensor/kernels/kernels.h"

namespace weft {

namespace composite_test {
using namespace weft::testing;

/// A result of a matrix, and the gradient of the matrix.
void expect_with_gradient_as_plain(const std::function<at::Tensor(const at::Tensor&)>& fn) {
  expect_as_plain({parameter({4, 4})}, [&](const Values& in) -> Values {
    const auto out = fn(in[0]);
    out.pow(3).sum().backward();
    return {out.detach(), in[0].grad()};
  });
}

TEST(Composite, TensorsThatAnOperatorMakesOfShapesCountAsReplicated) {
  expect_with_gradient_as_plain([](const at::Tensor& x) { return at::linalg_matrix_power(x, 0) + x; });
  expect_with_gradient_as_plain([](const at::Tensor& x) { return at::quantile(x, 0.4, 0); });
  expect_with_gradient_as_plain([](const at::Tensor& x) { return at::nanquantile(x, 0.4, 1, /*keepdim=*/true); });
  expect_with_gradient_as_plain([](const at::Tensor& x) { return at::combinations(x.flatten(), 2); });
}

TEST(Composite, LengthsGivenAsNumbersCountAsReplicated) {
  expect_as_plain(
      {parameter({6, 2, 5}), at::tensor({1, 2, 3, 4, 1, 2}, at::kLong).view({2, 3})}, [](const Values& in) -> Values {
        const auto loss = at::ctc_loss(in[0].log_softmax(2), in[1], {6, 4}, {3, 2});
        loss.backward();
        return {loss.detach(), in[0].grad()};
      });
}

TEST(Composite, SpectraAreMadeWithAndWithoutAWindow) {
  for (const bool has_window : {false, true}) {
    expect_as_plain({parameter({2, 16}), parameter({6})}, [&](const Values& in) -> Values {
      const auto window = has_window ? std::optional<at::Tensor>(in[1].square().add(1)) : std::nullopt;
      const auto spectrum = at::stft(
          in[0], 8, 4, 6, window, /*center=*/true, "reflect", /*normalized=*/false, std::nullopt,
          /*return_complex=*/true);
      const auto signal = at::istft(spectrum, 8, 4, 6, window);
      signal.pow(2).sum().backward();
      return {at::view_as_real(spectrum).detach(), signal.detach(), in[0].grad()};
    });
  }
}

TEST(Composite, CausalAttentionMakesItsMask) {
  const Values inputs = {parameter({2, 2, 4, 8}), parameter({2, 2, 4, 8}), parameter({2, 2, 4, 8})};
  const AgainstPlainOptions options{.shard_dims = std::vector<int64_t>{0, 2}};
  expect_as_plain(
      inputs,
      [](const Values& in) -> Values {
        const auto out = std::get<0>(
            at::_scaled_dot_product_attention_math(in[0], in[1], in[2], {}, /*dropout_p=*/0, /*is_causal=*/true));
        out.sum().backward();
        return {out.detach(), in[0].grad(), in[1].grad(), in[2].grad()};
      },
      options);
}

TEST(Composite, NumbersAreReadFromTheGatheredArgument) {
  expect_as_plain({parameter({6, 3}), at::tensor({1, 2, 5}, at::kLong)}, [](const Values& in) -> Values {
    auto parts = at::tensor_split(in[0], in[1]);
    parts[2].sum().backward();
    return {parts[0].detach(), parts[1].detach(), parts[2].detach(), in[0].grad()};
  });
  const Values lengths = {at::tensor({6, 4}, at::kLong), at::tensor({3, 2}, at::kLong)};
  expect_as_plain(
      {parameter({6, 2, 5}), at::tensor({1, 2, 3, 4, 1, 2}, at::kLong).view({2, 3}), lengths[0], lengths[1]},
      [](const Values& in) -> Values {
        const auto loss = at::ctc_loss(in[0].log_softmax(2), in[1], in[2], in[3]);
        loss.backward();
        return {loss.detach(), in[0].grad()};
      });
}

TEST(Composite, NumbersMayBePlainAndOtherArgumentsMayNot) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({6, 3});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto parts = at::tensor_split(x, at::tensor({1, 4}, at::kLong));
    expect_equal(full_tensor(parts[1]), global.slice(0, 1, 4));
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { at::quantile(x, at::tensor({0.25F, 0.5F}), 0); }),
        "[aten::quantile] distributed and plain tensors cannot be mixed, but argument 'q' is a plain tensor of shape "
        "[2]. Distribute it with distribute_tensor or from_local, or say by a ReplicatePlainScope (in Python by "
        "weft.replicate_plain()) that it is the same on every rank.");
    expect_contains(error_text<c10::ValueError>([&] { x + at::ones({6, 3}); }), "cannot be mixed");
    const StrictScope strict;
    const auto positions = distribute_tensor(at::tensor({1, 4}, at::kLong), mesh, {Shard(0)});
    expect_contains(error_text<c10::ValueError>([&] { at::tensor_split(x, positions); }), "[aten::tensor_split] would");
  });
}

} // namespace composite_test

} // namespace weft
