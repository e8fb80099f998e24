#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/kernels/kernels.h"

#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace einsum_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

void expect_gradients_as_plain(const std::string& equation, const Values& inputs) {
  SCOPED_TRACE(equation);
  expect_as_plain(inputs, [&](const Values& in) -> Values {
    const auto result = at::einsum(equation, in);
    result.pow(3).sum().backward();
    Values all = {result};
    for (const auto& tensor : in) {
      all.push_back(tensor.grad());
    }
    return all;
  });
}

TEST(Einsum, ValuesAndGradientsEqualTheSingleDevice) {
  expect_gradients_as_plain("mk,kn->mn", {parameter({4, 3}), parameter({3, 5})});
  expect_gradients_as_plain("mk,kn", {parameter({4, 3}), parameter({3, 5})});
  expect_gradients_as_plain("bmk,bkn->nbm", {parameter({2, 4, 3}), parameter({2, 3, 5})});
  expect_gradients_as_plain("i,j->ij", {parameter({4}), parameter({3})});
  expect_gradients_as_plain("i,i->", {parameter({5}), parameter({5})});
  expect_gradients_as_plain("ij->ji", {parameter({4, 3})});
  expect_gradients_as_plain("ab,bc,cd->ad", {parameter({2, 3}), parameter({3, 4}), parameter({4, 3})});
}

TEST(Einsum, OtherEquationsAreMadeOfOtherOperators) {
  expect_gradients_as_plain("...ij,jk->...ik", {parameter({2, 4, 3}), parameter({3, 5})});
  expect_gradients_as_plain("ii->i", {parameter({4, 4})});
  expect_gradients_as_plain("ij,jk->i", {parameter({4, 3}), parameter({3, 5})});
  expect_gradients_as_plain("ij->i", {parameter({4, 3})});
}

TEST(Einsum, ADimOfOneElementBroadcasts) {
  expect_gradients_as_plain("ij,jk->ik", {parameter({4, 1}), parameter({3, 5})});
  expect_gradients_as_plain("bi,bj->bij", {parameter({1, 3}), parameter({4, 2})});
}

TEST(Einsum, TensorsOfTwoDtypesHaveTheGradientsOfTheSingleDevice) {
  const Values inputs = {parameter({3, 1}), parameter({3, 1}, at::kFloat)};
  expect_gradients_as_plain("ij,kj->ik", inputs);
  expect_gradients_as_plain("ij,kl->ijkl", inputs);
}

TEST(Einsum, IsOneOperatorForwardAndBackward) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({2, 4, 3}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto y = distribute_tensor(whole_numbers({2, 3, 5}), mesh, {Shard(0)}).set_requires_grad(true);
    const ExplainLog log;
    const auto z = at::einsum("bmk,bkn->bmn", {x, y});
    ASSERT_EQ(log.calls().size(), 1U) << log.to_string();
    EXPECT_EQ(log.calls()[0]->op, "aten::einsum");
    EXPECT_EQ(log.calls()[0]->strategy, "{S(0)} {S(0)} -> {S(0)}");
    EXPECT_EQ(spec_of(z)->layout(), Layout{Shard(0)});
    z.sum().backward();
    const auto einsums = std::count_if(
        log.calls().begin(), log.calls().end(), [](const auto& call) { return call->op == "aten::einsum"; });
    EXPECT_EQ(einsums, 3) << log.to_string();
  });
}

TEST(Einsum, WithAnEllipsisItIsDecomposed) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({2, 4, 3}), mesh, {Shard(0)});
    const auto y = distribute_tensor(whole_numbers({3, 5}), mesh, {Replicate()});
    const ExplainLog log;
    at::einsum("...ij,jk->...ik", {x, y});
    ASSERT_FALSE(log.calls().empty());
    for (const auto& call : log.calls()) {
      EXPECT_NE(call->op, "aten::einsum");
    }
  });
}

TEST(Einsum, OnlyTheGradientsThatAreWantedAreMade) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)});
    const auto y = distribute_tensor(whole_numbers({3, 5}), mesh, {Replicate()}).set_requires_grad(true);
    const auto z = at::einsum("mk,kn->mn", {x, y}).sum();
    const ExplainLog log;
    z.backward();
    EXPECT_FALSE(x.grad().defined());
    const auto einsums = std::count_if(
        log.calls().begin(), log.calls().end(), [](const auto& call) { return call->op == "aten::einsum"; });
    EXPECT_EQ(einsums, 1) << log.to_string();
    expect_equal(full_tensor(y.grad()), whole_numbers({4, 3}).sum(0).view({3, 1}).expand({3, 5}));
  });
}

TEST(Einsum, TheGradientHasAGradient) {
  expect_as_plain({parameter({4, 3}), parameter({3, 5})}, [](const Values& in) -> Values {
    const auto loss = at::einsum("mk,kn->mn", {in[0], in[1]}).pow(3).sum();
    const auto first = torch::autograd::grad({loss}, {in[0]}, {}, true, /*create_graph=*/true)[0];
    first.pow(2).sum().backward();
    return {first, in[0].grad(), in[1].grad()};
  });
}

TEST(Einsum, GradientsOfComplexTensorsAreConjugated) {
  const auto a = at::complex(parameter({4, 3}).detach(), parameter({4, 3}).detach() * 2 + 1).set_requires_grad(true);
  const auto b = at::complex(parameter({3, 5}).detach(), parameter({3, 5}).detach() - 3).set_requires_grad(true);
  expect_as_plain({a, b}, [](const Values& in) -> Values {
    at::view_as_real(at::einsum("mk,kn->mn", {in[0], in[1]})).pow(3).sum().backward();
    return {at::view_as_real(in[0].grad()), at::view_as_real(in[1].grad())};
  });
}

TEST(Einsum, OperandsThatDoNotFitRaise) {
  const auto error = error_as_plain({parameter({4, 3}), parameter({2, 5})}, [](const Values& in) -> Values {
    return {at::einsum("mk,kn->mn", {in[0], in[1]})};
  });
  expect_contains(error, "einsum()");
}

} // namespace einsum_test

} // namespace weft
