#include "weft/tensor/impl/replicated_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/parallel_forward.h"
#include "weft/tensor/impl/scopes.h"

namespace weft {

namespace replicated_plain_test {
using namespace weft::testing;

TEST(ReplicatedPlain, TensorsOfOneElementDoEverywhereAndOthersInTheirScopes) {
  for (const auto& one : {at::ones({}), at::ones({1}), at::ones({1, 1}), at::ones({}).expand({3})}) {
    EXPECT_TRUE(counts_as_replicated(one)) << one.sizes();
  }
  EXPECT_FALSE(counts_as_replicated(at::ones({2})));
  EXPECT_FALSE(counts_as_replicated(at::ones({0, 2})));
  {
    const ParallelForward forward;
    EXPECT_TRUE(counts_as_replicated(at::ones({2})));
  }
  const ReplicatePlainScope scope;
  EXPECT_TRUE(counts_as_replicated(at::ones({2})));
}

TEST(ReplicatedPlain, OperatorsTakeThemInTheForwardOfAParallelizedModule) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    {
      const ParallelForward forward;
      const auto sum = x + global;
      EXPECT_EQ(spec_of(sum)->layout(), Layout{Shard(0)});
      expect_equal(full_tensor(sum), global + global);
    }
    expect_contains(error_text<c10::ValueError>([&] { x.add(global); }), "cannot be mixed");
  });
}

TEST(ReplicatedPlain, EveryRankStoresTheGlobalResultInAPlainTensor) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    for (const auto& layout : {Layout{Replicate()}, Layout{Shard(0)}, Layout{Shard(1)}}) {
      const auto x = distribute_tensor(global, mesh, layout);
      const ReplicatePlainScope scope;
      auto plain = at::ones({4, 2});
      EXPECT_TRUE(plain.add_(x).is_same(plain));
      expect_equal(plain, at::ones({4, 2}) + global);
      at::mul_out(plain, x, x);
      expect_equal(plain, global * global);
      plain.index_copy_(0, at::arange(3, -1, -1), x);
      expect_equal(plain, global.flip(0));
    }
    auto total = at::zeros({1});
    total += distribute_tensor(global, mesh, {Shard(0)}).sum();
    EXPECT_EQ(total.item<double>(), global.sum().item<double>());
  });
}

TEST(ReplicatedPlain, TheErrorForAPlainTensorThatIsWrittenToSaysHow) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { at::zeros({4, 2}).copy_(x); }),
        "[aten::copy_] distributed and plain tensors cannot be mixed, but argument 'self' is a plain tensor of shape "
        "[4, 2]. Distribute it with distribute_tensor or from_local, or store full_tensor() in it, or say by a "
        "ReplicatePlainScope (in Python by weft.replicate_plain()) that it is the same on every rank.");
  });
}

TEST(ReplicatedPlain, DebugModeComparesTheirValuesBetweenRanks) {
  std::vector<std::string> errors(2);
  run_on_ranks(2, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    const auto x = distribute_tensor(whole_numbers({4}), mesh, {Shard(0)});
    const DebugScope debug;
    const ParallelForward forward;
    x.add(at::ones({4}));
    at::empty({4}).copy_(x);
    errors[rank] = error_text<c10::ValueError>([&] { x.add(at::full({4}, rank)); });
  });
  EXPECT_EQ(errors[0], errors[1]);
  EXPECT_EQ(
      errors[0],
      "[debug] a plain tensor among distributed ones must have the same values on every rank, but argument 'other' of "
      "aten::add, of shape [4], differs between ranks 0 and 1. Make it the same on every rank, or distribute it with "
      "from_local by the placements that it has.");
}

} // namespace replicated_plain_test

} // namespace weft
