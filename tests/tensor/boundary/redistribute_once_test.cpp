#include "weft/tensor/boundary/redistribute_once.h"
#include "tests/support/new_place.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace redistribute_once_test {
using namespace weft::testing;

const Layout kReplicated = {Replicate()};

/// A tensor that is not a leaf, as an activation is.
at::Tensor activation(const DeviceMesh& mesh, const Placement& placement) {
  const auto global = whole_numbers({4, 2});
  return from_local(part_of(global, mesh, {placement}), mesh, {placement}, global.sizes()).set_requires_grad(true) * 1;
}

TEST(RedistributeOnce, TheSameTensorIsRedistributedOnce) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = activation(mesh, Shard(0));
    CommLog log(mesh);
    const auto first = at_new_place(x, kReplicated);
    EXPECT_TRUE(first.is_same(at_new_place(x, kReplicated)));
    EXPECT_EQ(log.calls(), 1);
    expect_equal(full_tensor(first), whole_numbers({4, 2}));
    EXPECT_EQ(spec_of(at_new_place(x, {Shard(1)}))->layout(), Layout{Shard(1)});
  });
}

TEST(RedistributeOnce, ASecondCallFromOnePlaceCommunicatesAgain) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = activation(mesh, Shard(0)).detach();
    const int query = 0;
    const int key = 0;
    for (const auto* written : {"", "unseen", "", "unseen"}) {
      if (std::string_view(written) == "unseen") {
        const auto local = to_local(x);
        std::fill_n(local.mutable_data_ptr<float>(), local.numel(), 7.0F); // as numpy does
      }
      CommLog log(mesh);
      const auto first = redistribute_once(x, kReplicated, &query);
      EXPECT_TRUE(first.is_same(redistribute_once(x, kReplicated, &key)));
      EXPECT_EQ(log.calls(), 1);
      expect_equal(full_tensor(first), full_tensor(x));
    }
  });
}

TEST(RedistributeOnce, TheGradientsOfAllUsesAreReducedOnce) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto& placement : {Replicate(), Shard(0)}) {
      const auto x = activation(mesh, placement);
      x.retain_grad();
      const auto weight = from_local(at::ones({2, 3}), mesh, {Shard(1)});
      const auto loss =
          (at_new_place(x, kReplicated).matmul(weight) + at_new_place(x, kReplicated).matmul(weight * 2)).sum();
      CommLog log(mesh);
      loss.backward();
      EXPECT_EQ(log.calls(), 1) << log.to_string();
      EXPECT_EQ(spec_of(x.grad())->layout(), Layout{placement});
      expect_equal(full_tensor(x.grad()), at::full({4, 2}, 18.0));
    }
  });
}

TEST(RedistributeOnce, TheGradientIsReducedOnceThoughTheTensorIsNotKept) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = activation(mesh, Replicate());
    x.retain_grad();
    const auto weight = from_local(at::ones({2, 3}), mesh, {Shard(1)}).to(at::kBFloat16);
    // As under autocast, where backward saves another tensor than the redistributed one.
    const auto used = [&] { return at_new_place(x, kReplicated).to(at::kBFloat16).matmul(weight); };
    const auto loss = (used() + used() + used()).sum();
    CommLog log(mesh);
    loss.backward();
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    expect_equal(full_tensor(x.grad()), at::full({4, 2}, 18.0));
  });
}

TEST(RedistributeOnce, WhatSharesTheTensorsMemoryIsNotChangedInPlace) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = activation(mesh, Replicate());
    const auto first = at_new_place(x, kReplicated);
    for (const auto& entered : {first, at_new_place(x, kReplicated)}) {
      EXPECT_TRUE(entered.is_view());
      EXPECT_THROW(entered.add_(1), c10::Error);
    }
  });
}

TEST(RedistributeOnce, AChangedTensorIsRedistributedAgain) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const c10::NoGradGuard no_grad;
    const auto x = activation(mesh, Shard(0));
    const auto first = at_new_place(x, kReplicated);
    x.add_(1);
    expect_equal(full_tensor(at_new_place(x, kReplicated)), whole_numbers({4, 2}) + 1);
    at_new_place(x, kReplicated).add_(5);
    expect_equal(full_tensor(at_new_place(x, kReplicated)), whole_numbers({4, 2}) + 1);
  });
}

TEST(RedistributeOnce, WhatWasMadeWithoutAGraphIsNotUsedWithOne) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = activation(mesh, Shard(0));
    {
      const c10::NoGradGuard no_grad;
      EXPECT_FALSE(at_new_place(x, kReplicated).requires_grad());
    }
    EXPECT_TRUE(at_new_place(x, kReplicated).requires_grad());
  });
}

TEST(RedistributeOnce, NeitherTensorKeepsTheOtherAliveForEver) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto& placement : {Replicate(), Shard(0)}) {
      auto x = activation(mesh, placement);
      auto moved = at_new_place(x, kReplicated);
      const c10::weak_intrusive_ptr<c10::TensorImpl> tensor(x.getIntrusivePtr());
      const c10::weak_intrusive_ptr<c10::TensorImpl> result(moved.getIntrusivePtr());
      x.reset();
      moved.reset();
      EXPECT_TRUE(tensor.expired());
      EXPECT_TRUE(result.expired());
    }
  });
}

TEST(RedistributeOnce, ALeafThatRequiresAGradientAndAnInferenceTensorAreNotShared) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto leaf = activation(mesh, Shard(0)).detach().set_requires_grad(true);
    EXPECT_FALSE(at_new_place(leaf, kReplicated).is_same(at_new_place(leaf, kReplicated)));
    const c10::weak_intrusive_ptr<c10::TensorImpl> weak(leaf.getIntrusivePtr());
    leaf.reset();
    EXPECT_TRUE(weak.expired());
    const c10::InferenceMode inference;
    const auto x = from_local(at::ones({2, 2}), mesh, {Shard(0)});
    expect_equal(full_tensor(at_new_place(x, kReplicated)), at::ones({4, 2}));
    EXPECT_FALSE(at_new_place(x, kReplicated).is_same(at_new_place(x, kReplicated)));
  });
}

} // namespace redistribute_once_test

} // namespace weft
