#include "weft/tensor/kernels/scattered_matmul.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/sample_tensors.h"
#include "weft/comm/collectives.h"
#include "weft/comm/comm_log.h"
#include "weft/overlap/measure/mesh_rates.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/scopes.h"

#include <c10/core/GradMode.h>

namespace weft {

namespace scattered_matmul_test {
using namespace weft::testing;

at::Tensor numbers(c10::IntArrayRef sizes) {
  return sample(static_cast<int64_t>(sizes.size()), sizes, at::kDouble) - 1;
}

TEST(ScatteredMatmul, HasTheLayoutOfTheTensorWhoseGradientItIs) {
  for (const int64_t members : {2, 3, 4}) {
    on_mesh({members}, [](const DeviceMesh& mesh) {
      const OverlapScope scope(OverlapMode::Force);
      const c10::NoGradGuard no_grad;
      for (const int64_t length : {8, 7, 2}) {
        const auto gradient = numbers({2, length, 6});
        const auto matrix = numbers({6, 3});
        const auto like = distribute_tensor(numbers({2, length, 3}), mesh, {Shard(1)});
        const auto result = scattered_matmul(
            distribute_tensor(gradient, mesh, {Shard(2)}), distribute_tensor(matrix, mesh, {Shard(0)}), like);
        ASSERT_TRUE(result.defined());
        EXPECT_EQ(as_dtensor(result)->spec()->layout(), Layout({Shard(1)}));
        expect_equal(full_tensor(result), at::matmul(gradient, matrix));
      }
    });
  }
}

TEST(ScatteredMatmul, IsNotForOtherLayouts) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const OverlapScope scope(OverlapMode::Force);
    const c10::NoGradGuard no_grad;
    const auto is_done = [&](const Layout& gradient, const Layout& matrix, const Layout& like) {
      return scattered_matmul(
                 distribute_tensor(numbers({4, 4, 4}), mesh, gradient),
                 distribute_tensor(numbers({4, 4}), mesh, matrix), distribute_tensor(numbers({4, 4, 4}), mesh, like))
          .defined();
    };
    EXPECT_TRUE(is_done({Shard(0), Shard(2)}, {Replicate(), Shard(0)}, {Shard(0), Shard(1)}));
    EXPECT_FALSE(is_done({Shard(0), Shard(2)}, {Replicate(), Shard(0)}, {Shard(0), Replicate()}));
    EXPECT_FALSE(is_done({Shard(0), Shard(2)}, {Replicate(), Shard(0)}, {Replicate(), Shard(1)}));
    EXPECT_FALSE(is_done({Shard(0), Shard(2)}, {Replicate(), Shard(0)}, {Shard(1), Shard(1)}));
    EXPECT_FALSE(is_done({Shard(2), Shard(2)}, {Shard(0), Shard(0)}, {Shard(1), Shard(1)}));
    EXPECT_FALSE(is_done({Shard(0), Replicate()}, {Replicate(), Replicate()}, {Shard(0), Shard(1)}));
    const OverlapScope off(OverlapMode::Off);
    EXPECT_FALSE(is_done({Shard(0), Shard(2)}, {Replicate(), Shard(0)}, {Shard(0), Shard(1)}));
  });
}

/// The layouts of the gradient of a layer's input under the given rates.
Layout gradient_layout(const Link& link) {
  give_rates(link, Compute{1e11, 1e12, 1e-6});
  Layout layout;
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const c10::NoGradGuard no_grad;
    const auto x = distribute_tensor(at::ones({512, 512}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(at::ones({1024, 512}), mesh, {Shard(0)});
    const auto gradient = distribute_tensor(at::ones({512, 1024}), mesh, {Shard(1)});
    const auto result = std::get<0>(at::linear_backward(x, gradient, weight, {true, false, false}));
    expect_equal(full_tensor(result), at::full({512, 512}, 1024.0));
    if (mesh.rank(0) == 0) {
      layout = as_dtensor(result)->spec()->layout();
    }
  });
  give_rates(std::nullopt, std::nullopt);
  return layout;
}

TEST(ScatteredMatmul, IsUsedIfItCostsNextToNothing) {
  EXPECT_EQ(gradient_layout({1e-5, 2e9}), Layout({Shard(0)}));
  // Not used if the scatter takes longer than the matmul, because other layers might share one reduction.
  EXPECT_EQ(gradient_layout({1e-5, 125e6}), Layout({Partial()}));
  EXPECT_EQ(gradient_layout({1e-5, 1e12}), Layout({Partial()}));
}

/// Operands that are large enough for rates to decide.
struct Operands {
  at::Tensor gradient;
  at::Tensor matrix;
  at::Tensor like;

  explicit Operands(const DeviceMesh& mesh)
      : gradient(distribute_tensor(at::ones({512, 1024}), mesh, {Shard(1)})),
        matrix(distribute_tensor(at::ones({1024, 512}), mesh, {Shard(0)})),
        like(distribute_tensor(at::ones({512, 512}), mesh, {Shard(0)})) {}

  bool are_scattered() const {
    const auto result = scattered_matmul(gradient, matrix, like);
    if (result.defined()) {
      expect_equal(full_tensor(result), at::full({512, 512}, 1024.0));
    }
    return result.defined();
  }
};

const Compute kCompute{1e11, 1e12, 1e-6};
const Link kLinkThatPays{1e-5, 2e9};
const Link kLinkThatDoesNot{1e-5, 1e12};

TEST(ScatteredMatmul, TheRatesDecideOnTheLargestShardOfARaggedBatch) {
  give_rates(kLinkThatPays, kCompute);
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const c10::NoGradGuard no_grad;
    // Those of the first member of the batch's mesh dim are too small for any overlap.
    const auto batch = RaggedShard(0, {0, 1});
    const auto result = scattered_matmul(
        distribute_tensor(at::ones({2, 256, 1024}), mesh, {batch, Shard(2)}),
        distribute_tensor(at::ones({1024, 512}), mesh, {Replicate(), Shard(0)}),
        distribute_tensor(at::ones({2, 256, 512}), mesh, {batch, Shard(1)}));
    ASSERT_TRUE(result.defined());
    expect_equal(full_tensor(result), at::full({2, 256, 512}, 1024.0));
  });
  give_rates(std::nullopt, std::nullopt);
}

TEST(ScatteredMatmul, ModesMayAlternateOnTheSameShapes) {
  for (const auto& [link, pays] : {std::pair(kLinkThatPays, true), std::pair(kLinkThatDoesNot, false)}) {
    give_rates(link, kCompute);
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      const c10::NoGradGuard no_grad;
      const Operands operands(mesh);
      for (int64_t i = 0; i < 2; ++i) {
        for (const auto mode : {OverlapMode::Off, OverlapMode::Force, OverlapMode::Auto, OverlapMode::Force}) {
          const OverlapScope scope(mode);
          EXPECT_EQ(operands.are_scattered(), mode == OverlapMode::Force || (mode == OverlapMode::Auto && pays));
        }
      }
    });
  }
  give_rates(std::nullopt, std::nullopt);
}

TEST(ScatteredMatmul, IsDecidedAgainWhereRanksAgreeOnOtherRates) {
  give_rates(kLinkThatPays, kCompute);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const c10::NoGradGuard no_grad;
    const Operands operands(mesh);
    EXPECT_TRUE(operands.are_scattered());
    for (const bool pays : {false, true}) {
      barrier(mesh, {0});
      give_rates(pays ? kLinkThatPays : kLinkThatDoesNot, kCompute);
      measure_rates(mesh);
      EXPECT_EQ(operands.are_scattered(), pays);
    }
  });
  give_rates(std::nullopt, std::nullopt);
}

TEST(ScatteredMatmul, IsDecidedOncePerSpecs) {
  give_rates(kLinkThatDoesNot, kCompute);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const c10::NoGradGuard no_grad;
    const Operands operands(mesh);
    const auto before = call_cache_counters();
    EXPECT_FALSE(operands.are_scattered());
    EXPECT_EQ(call_cache_counters().misses, before.misses + 1);
    const CommLog log(mesh);
    EXPECT_FALSE(operands.are_scattered());
    EXPECT_EQ(call_cache_counters().misses, before.misses + 1);
    EXPECT_EQ(call_cache_counters().hits, before.hits + 1);
    EXPECT_EQ(log.calls(), 0);
  });
  give_rates(std::nullopt, std::nullopt);
}

TEST(ScatteredMatmul, RanksThatDoNotAgreeAreToldSo) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const c10::NoGradGuard no_grad;
    const Operands operands(mesh);
    const OverlapScope scope(mesh.rank(0) == 0 ? OverlapMode::Force : OverlapMode::Auto);
    const DebugScope debug;
    const auto text = error_text([&] { operands.are_scattered(); });
    expect_contains(text, "overlap: force");
    expect_contains(text, "overlap: auto");
  });
}

TEST(ScatteredMatmul, IsExplained) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const OverlapScope scope(OverlapMode::Force);
    const auto x = distribute_tensor(numbers({4, 3}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto weight = distribute_tensor(numbers({6, 3}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto loss = at::linear(x * 1, weight).square().sum();
    const ExplainLog log;
    loss.backward();
    EXPECT_NE(log.to_string().find("matmul_reduce_scatter("), std::string::npos) << log.to_string();
    EXPECT_NE(
        log.to_string().find(
            "the product is reduce-scattered along dim 0, overlapped with the matmul, chunks per rank: "),
        std::string::npos);
  });
}

} // namespace scattered_matmul_test

} // namespace weft
