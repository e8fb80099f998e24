#include "weft/tensor/dispatch/outside_call.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/factories.h"

#include <ATen/ATen.h>

namespace weft {

namespace outside_call_test {
using namespace weft::testing;

/// Calls `fn(tensor, is_outside)` on three ranks with ones of shape {4, 3} {S(0)} over the first two.
template <class Fn>
void on_two_of_three(Fn fn) {
  run_on_ranks(3, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    fn(ones({4, 3}, mesh, {Shard(0)}), rank == 2);
  });
}

void expect_nothing(const at::Tensor& tensor) {
  EXPECT_EQ(to_local(tensor).sizes(), c10::IntArrayRef({0}));
}

TEST(OutsideCall, ResultsHaveTheSpecsThatTheMeshHasAndHoldNothing) {
  on_two_of_three([](const at::Tensor& x, bool is_outside) {
    const auto sum = (x + 2).matmul(x.t()).relu();
    EXPECT_EQ(spec_of(sum)->to_string(), "f32[4,4] @ mesh(a=2) {S(0)}");
    const auto total = x.sum();
    EXPECT_EQ(spec_of(total)->to_string(), "f32[] @ mesh(a=2) {P(sum)}");
    const auto largest = at::topk(x, 2, 1);
    EXPECT_EQ(spec_of(std::get<1>(largest))->to_string(), "i64[4,2] @ mesh(a=2) {S(0)}");
    EXPECT_EQ(spec_of(x.norm())->to_string(), "f32[] @ mesh(a=2) {R}");
    if (is_outside) {
      expect_nothing(sum);
      EXPECT_EQ(to_local(total).item<float>(), 0);
      expect_nothing(std::get<0>(largest));
    } else {
      EXPECT_EQ(to_local(sum).sizes(), c10::IntArrayRef({2, 4}));
    }
  });
}

TEST(OutsideCall, ListsViewsAndInPlaceOperators) {
  on_two_of_three([](const at::Tensor& x, bool is_outside) {
    const auto halves = x.split_with_sizes({1, 2}, 1);
    EXPECT_EQ(spec_of(halves.at(1))->to_string(), "f32[4,2|3,1] @ mesh(a=2) {S(0)}");
    auto column = x.select(1, 0);
    column.mul_(3).add_(1);
    x.t_();
    EXPECT_EQ(x.sizes(), c10::IntArrayRef({3, 4}));
    at::_foreach_add_(std::vector<at::Tensor>{x, column}, 1);
    if (is_outside) {
      expect_nothing(halves[0]);
      expect_nothing(column);
    } else {
      EXPECT_EQ(to_local(column)[0].item<float>(), 6);
    }
  });
}

TEST(OutsideCall, RedistributionsNeitherSendNorReceive) {
  on_two_of_three([](const at::Tensor& x, bool is_outside) {
    const auto replicated = redistribute(x, {Replicate()});
    EXPECT_EQ(spec_of(redistribute(replicated, {Shard(1)}))->to_string(), "f32[4,3] @ mesh(a=2) {S(1)}");
    if (is_outside) {
      expect_nothing(replicated);
      EXPECT_EQ(
          error_text<c10::ValueError>([&] { full_tensor(x); }),
          "[full_tensor] a rank of the mesh is required, but rank 2 is not in mesh(a=2). Call it on those ranks only; "
          "to_local() is empty here.");
    }
  });
}

TEST(OutsideCall, GradientsPassThrough) {
  on_two_of_three([](const at::Tensor& x, bool is_outside) {
    const auto leaf = x.detach().set_requires_grad(true);
    (leaf * 2).exp().sum().backward();
    EXPECT_EQ(spec_of(leaf.grad()), spec_of(leaf));
    if (is_outside) {
      expect_nothing(leaf.grad());
    }
    to_local(leaf * 2).sum().backward();
  });
}

TEST(OutsideCall, OperatorsThatExchangeValuesInTheirKernels) {
  on_two_of_three([](const at::Tensor& x, bool is_outside) {
    const auto classes = at::one_hot(x.to(at::kLong), 3);
    EXPECT_EQ(spec_of(classes)->to_string(), "i64[4,3,3] @ mesh(a=2) {S(0)}");
    const auto normal = at::batch_norm(x, {}, {}, {}, {}, /*training=*/true, 0.1, 1e-5, false);
    EXPECT_EQ(spec_of(normal)->to_string(), "f32[4,3] @ mesh(a=2) {S(0)}");
    const auto leaf = ones({1, 3, 12}, mesh_of(x), {Shard(2)}).set_requires_grad(true);
    const auto image = at::conv1d(leaf, ones({2, 3, 3}, mesh_of(x), {Replicate()}), {}, 1, 1);
    EXPECT_EQ(spec_of(image)->to_string(), "f32[1,2,12] @ mesh(a=2) {S(2)}");
    image.narrow(2, 1, 8).sum().backward();
    EXPECT_EQ(spec_of(leaf.grad()), spec_of(leaf));
    if (is_outside) {
      expect_nothing(classes);
      expect_nothing(normal);
      expect_nothing(image);
    }
  });
}

TEST(OutsideCall, ValuesThatTheMeshAloneKnowsRaise) {
  on_two_of_three([](const at::Tensor& x, bool is_outside) {
    if (!is_outside) {
      return;
    }
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { x.sum().item(); }),
        "[aten::_local_scalar_dense] rank 2 is not in mesh(a=2), whose ranks alone know the number that this operator "
        "returns. Call it on those ranks only, where mesh.is_member() (in Python mesh.get_coordinate() is not None).");
    expect_contains(error_text<c10::ValueError>([&] { x.equal(x); }), "rank 2 is not in mesh(a=2)");
    expect_contains(
        error_text<c10::ValueError>([&] { x.nonzero(); }), "whose ranks alone know the sizes of the result");
  });
}

} // namespace outside_call_test

} // namespace weft
