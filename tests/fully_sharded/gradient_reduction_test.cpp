#include "weft/fully_sharded/gradient_reduction.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

namespace weft {

namespace gradient_reduction_test {
using namespace weft::testing;

constexpr int64_t kRanks = 3;

std::vector<at::Tensor> parameters() {
  return {whole_numbers({5, 3}), whole_numbers({7}), whole_numbers({2, 2})};
}

/// Runs `fn` on every rank with flat parameters.
void on_parameters(const std::function<void(FlatParameters&, int64_t rank)>& fn) {
  on_mesh({kRanks}, [&](const DeviceMesh& mesh) {
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    fn(flat, mesh.rank(0));
  });
}

TEST(GradientReduction, OneCallSumsTheTermsOfAllMembers) {
  on_parameters([](FlatParameters& flat, int64_t rank) {
    const CommLog log(flat.mesh());
    const auto pool = std::make_shared<BufferPool>();
    GradientReduction reduction(flat, ReduceOp::Sum, at::kFloat, /*votes=*/false, pool);
    for (size_t k = 0; k < flat.size(); ++k) {
      reduction.add(k, parameters()[k] * static_cast<double>(rank + 1), flat.spec(k)->layout());
    }
    reduction.start();
    reduction.wait();
    EXPECT_EQ(log.calls(), 1);
    for (size_t k = 0; k < flat.size(); ++k) {
      const auto gradient = reduction.gradient(k);
      EXPECT_EQ(as_dtensor(gradient)->spec(), flat.spec(k));
      expect_equal(full_tensor(gradient), parameters()[k] * 6);
    }
    EXPECT_GT(pool->bytes(), 0); // the buffer was given back
  });
}

TEST(GradientReduction, TermsOfSeveralPassesAreAddedUp) {
  on_parameters([](FlatParameters& flat, int64_t /*rank*/) {
    GradientReduction reduction(flat, ReduceOp::Avg, at::kFloat, /*votes=*/false, std::make_shared<BufferPool>());
    for (int pass = 0; pass < 3; ++pass) {
      for (size_t k = 0; k < flat.size(); ++k) {
        reduction.add(k, parameters()[k], flat.spec(k)->layout());
      }
    }
    reduction.start();
    reduction.wait();
    expect_equal(full_tensor(reduction.gradient(0)), parameters()[0] * 3);
  });
}

TEST(GradientReduction, AParameterWithoutATermHasNoGradient) {
  on_parameters([](FlatParameters& flat, int64_t /*rank*/) {
    GradientReduction reduction(flat, ReduceOp::Sum, at::kFloat, /*votes=*/false, std::make_shared<BufferPool>());
    reduction.add(1, parameters()[1], flat.spec(1)->layout());
    reduction.start();
    reduction.wait();
    EXPECT_FALSE(reduction.gradient(0).defined());
    EXPECT_FALSE(reduction.gradient(2).defined());
    expect_equal(full_tensor(reduction.gradient(1)), parameters()[1] * kRanks);
  });
}

TEST(GradientReduction, MembersVoteOnWhichGradientsThereAre) {
  on_parameters([](FlatParameters& flat, int64_t rank) {
    GradientReduction reduction(flat, ReduceOp::Avg, at::kFloat, /*votes=*/true, std::make_shared<BufferPool>());
    if (rank == 1) {
      reduction.add(0, parameters()[0] * kRanks, flat.spec(0)->layout());
    } else {
      reduction.add(2, parameters()[2] * kRanks, flat.spec(2)->layout());
    }
    reduction.start();
    reduction.wait();
    expect_equal(full_tensor(reduction.gradient(0)), parameters()[0]);
    EXPECT_FALSE(reduction.gradient(1).defined());
    expect_equal(full_tensor(reduction.gradient(2)), parameters()[2] * 2);
  });
}

TEST(GradientReduction, TheVotesOfReplicasCount) {
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(1)), 1, std::nullopt);
    const auto before = flat.spec(0)->layout().with(0, Partial(ReduceOp::Avg));
    GradientReduction reduction(
        flat, ReduceOp::Avg, at::kFloat, /*votes=*/true, std::make_shared<BufferPool>(), /*replicate_dim=*/0);
    if (mesh.rank(0) == 1 && mesh.rank(1) == 0) {
      reduction.add(0, parameters()[0] * 4, flat.spec(0)->layout().with(0, Partial(ReduceOp::Avg)));
    }
    if (mesh.rank(1) == 1) {
      reduction.add(2, parameters()[2] * 2, flat.spec(2)->layout().with(0, Partial(ReduceOp::Avg)));
    }
    reduction.start();
    reduction.wait();
    EXPECT_EQ(as_dtensor(reduction.gradient(0))->spec()->layout(), before) << "also where no shard's member has a term";
    expect_equal(full_tensor(reduction.gradient(0)), parameters()[0]);
    EXPECT_FALSE(reduction.gradient(1).defined());
    expect_equal(full_tensor(reduction.gradient(2)), parameters()[2]);
  });
}

TEST(GradientReduction, MembersWithoutATermKnowThatTheOthersArePartial) {
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    GradientReduction reduction(flat, ReduceOp::Avg, at::kFloat, /*votes=*/true, std::make_shared<BufferPool>());
    if (mesh.rank(0) == 1) { // its two ranks on the other mesh dim have terms of a sum
      reduction.add(0, parameters()[0] * (mesh.rank(1) + 1), flat.spec(0)->layout().with(1, Partial()));
    }
    reduction.add(1, parameters()[1], flat.spec(1)->layout());
    reduction.start();
    reduction.wait();
    EXPECT_EQ(as_dtensor(reduction.gradient(0))->spec()->layout(), flat.spec(0)->layout().with(1, Partial()));
    expect_equal(full_tensor(reduction.gradient(0)), parameters()[0] * 1.5); // (1 + 2) / 2
    EXPECT_EQ(as_dtensor(reduction.gradient(1))->spec()->layout(), flat.spec(1)->layout());
    expect_equal(full_tensor(reduction.gradient(1)), parameters()[1]);
    EXPECT_FALSE(reduction.gradient(2).defined());
  });
}

TEST(GradientReduction, MembersWhoseTermsDifferInKindRaise) {
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    GradientReduction reduction(flat, ReduceOp::Avg, at::kFloat, /*votes=*/true, std::make_shared<BufferPool>());
    const auto layout = flat.spec(0)->layout();
    reduction.add(0, parameters()[0], mesh.rank(0) == 1 ? layout.with(1, Partial()) : layout);
    reduction.start();
    reduction.wait();
    expect_contains(error_text([&] { reduction.gradient(0); }), "must be partial on");
  });
}

TEST(GradientReduction, GradientsAreReducedInTheGivenDtype) {
  on_parameters([](FlatParameters& flat, int64_t /*rank*/) {
    GradientReduction reduction(flat, ReduceOp::Sum, at::kDouble, /*votes=*/false, std::make_shared<BufferPool>());
    const CommLog log(flat.mesh());
    reduction.add(0, parameters()[0].to(at::kBFloat16), flat.spec(0)->layout());
    reduction.start();
    reduction.wait();
    EXPECT_EQ(reduction.gradient(0).scalar_type(), at::kFloat);
    EXPECT_EQ(log.bytes() % 8, 0);
  });
}

} // namespace gradient_reduction_test
} // namespace weft
