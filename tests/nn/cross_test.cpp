#include "weft/nn/cross.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

namespace weft::nn {

namespace cross_test {
using namespace weft::testing;

Crosser crosser(const DeviceMesh& mesh, int64_t mesh_dim = 0) {
  return {"[here] ", mesh, mesh_dim};
}

at::Tensor distributed(const DeviceMesh& mesh, const Layout& layout) {
  const auto global = whole_numbers({4, 4});
  return from_local(part_of(global, mesh, layout), mesh, layout, global.sizes());
}

TEST(Crosser, MovesATensorAlongOneMeshDimAndLeavesTheOthers) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto x = distributed(mesh, {Shard(0), Shard(1)});
    const auto entered = crosser(mesh, 1).enter(x, {.to = Replicate()}, /*as_local=*/false);
    EXPECT_EQ(spec_of(entered)->layout(), (Layout{Shard(0), Replicate()}));
    const auto left = crosser(mesh, 1).leave(entered, {.to = Shard(-1)}, /*as_local=*/false);
    EXPECT_EQ(spec_of(left)->layout(), (Layout{Shard(0), Shard(1)}));
    expect_equal(full_tensor(left), whole_numbers({4, 4}));
  });
}

TEST(Crosser, ATensorThatIsWhereItIsWantedStaysTheSameTensor) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distributed(mesh, {Shard(1)});
    EXPECT_TRUE(crosser(mesh).enter(x, {.to = Shard(-1)}, false).is_same(x));
    EXPECT_TRUE(crosser(mesh).leave(x, {.to = Shard(-1)}, false).is_same(x));
    EXPECT_TRUE(crosser(mesh).enter(x, {}, false).is_same(x));
  });
}

TEST(Crosser, AnInputThatIsReplicatedHasAGradientThatIs) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distributed(mesh, {Replicate()}).set_requires_grad(true) * 1;
    x.retain_grad();
    const auto entered = crosser(mesh).enter(x, {.to = Replicate()}, false);
    entered.matmul(distributed(mesh, {Shard(1)})).sum().backward();
    EXPECT_EQ(spec_of(x.grad())->layout(), Layout{Replicate()});
  });
}

/// The number of nodes from a tensor to the leaves that it is computed from, along the first inputs.
int64_t nodes_behind(const at::Tensor& tensor) {
  int64_t count = 0;
  for (auto node = tensor.grad_fn(); node && !node->next_edges().empty(); node = node->next_edges()[0].function) {
    ++count;
  }
  return count;
}

TEST(Crosser, OnOneRankABoundaryIsOneNodeAndSharesMemory) {
  for (const auto& placement : {Replicate(), Shard(0), Shard(-1)}) {
    on_mesh({1}, [&](const DeviceMesh& mesh) {
      const auto plain = at::ones({2, 4}).set_requires_grad(true);
      const auto entered = crosser(mesh).enter(plain, {.from = Shard(1), .to = placement}, false);
      EXPECT_EQ(spec_of(entered)->layout(), Layout{placement.normalized(2)});
      EXPECT_EQ(nodes_behind(entered), 1);
      EXPECT_EQ(to_local(entered).data_ptr(), plain.data_ptr());
      EXPECT_TRUE(crosser(mesh).enter(entered, {.to = placement}, false).is_same(entered));
      for (const auto& to : {Replicate(), Shard(0)}) {
        const auto left = crosser(mesh).leave(entered, {.to = to}, /*as_local=*/true);
        EXPECT_EQ(left.data_ptr(), plain.data_ptr());
        EXPECT_EQ(nodes_behind(left), 2);
        EXPECT_EQ(spec_of(crosser(mesh).leave(entered, {.to = to}, false))->layout(), Layout{to});
        const auto gradient = torch::autograd::grad({(left * left).sum()}, {plain}, {}, /*retain_graph=*/true)[0];
        expect_equal(gradient, at::full({2, 4}, 2.0));
      }
    });
  }
}

TEST(Crosser, OnOneRankWhatOthersWouldRefuseIsRefused) {
  on_mesh({1}, [](const DeviceMesh& mesh) {
    const auto plain = at::ones({2, 4});
    const auto sharded = from_local(plain, mesh, {Shard(0)});
    const auto refusal = "[plan] a shard cannot become a partial value";
    for (const bool as_local : {false, true}) {
      expect_contains(
          error_text([&] { crosser(mesh).enter(plain, {.from = Shard(0), .to = Partial()}, as_local); }), refusal);
      expect_contains(error_text([&] { crosser(mesh).leave(sharded, {.to = Partial()}, as_local); }), refusal);
      expect_contains(
          error_text([&] { crosser(mesh).leave(sharded, {.to = Shard(2)}, as_local); }), "[Placement] the dim of S(2)");
    }
  });
}

TEST(Crosser, PlainTensorsAreUnderstoodAsThePlanSaysAndGivenOutAsAsked) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto plain = at::ones({2, 4});
    const auto entered = crosser(mesh).enter(plain, {.from = Shard(0), .to = Replicate()}, false);
    expect_equal(to_local(entered), at::ones({4, 4}));
    EXPECT_FALSE(is_dtensor(crosser(mesh).enter(plain, {.from = Shard(0), .to = Replicate()}, true)));
    const auto left = crosser(mesh).leave(entered, {.to = Shard(0)}, true);
    EXPECT_FALSE(is_dtensor(left));
    expect_equal(left, at::ones({2, 4}));
    EXPECT_TRUE(crosser(mesh).enter(plain, {}, false).is_same(plain));
    EXPECT_FALSE(crosser(mesh).enter(at::Tensor(), {.to = Replicate()}, false).defined());
  });
}

TEST(Crosser, APlainTensorOfWhichThePlanSaysTooLittleIsAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { crosser(mesh).enter(at::ones({2}), {.to = Replicate()}, false); }),
        "[here] a distributed tensor is required, but got a plain one of shape [2]. State the placement of a plain "
        "tensor in the plan: "
        "\"S(1) -> R\".");
  });
  on_mesh({2, 1}, [](const DeviceMesh& mesh) {
    expect_contains(
        error_text<c10::ValueError>([&] { crosser(mesh).enter(at::ones({2}), {.from = Replicate()}, false); }),
        "[here] a distributed tensor is required on a mesh of several dims, but got a plain one of shape [2].");
  });
}

TEST(Crosser, ATensorOnAnotherMeshIsAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto other = DeviceMesh(mesh.world(), c10::kCPU, {2}, {"other"});
    expect_contains(
        error_text<c10::ValueError>(
            [&] { crosser(other).leave(distributed(mesh, {Shard(0)}), {.to = Replicate()}, false); }),
        "[here] a tensor on the plan's mesh mesh(other=2) is required, but got one on mesh(a=2).");
  });
}

} // namespace cross_test

} // namespace weft::nn
