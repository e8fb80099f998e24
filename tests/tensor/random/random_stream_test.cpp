#include "weft/tensor/random/random_stream.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/random/initialization_scope.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

namespace weft {

namespace random_stream_test {
using namespace weft::testing;

const std::vector<Placement> kPlacements = {Replicate(), Shard(0), Shard(1), StridedShard(0, 2)};

using Fill = std::function<void(at::Tensor, const std::optional<at::Generator>&)>;

struct Case {
  std::string name;
  Fill fill;
};

const std::vector<Case> kFills = {
    {"uniform_", [](at::Tensor t, const auto& g) { t.uniform_(-0.3, 0.7, g); }},
    {"normal_", [](at::Tensor t, const auto& g) { t.normal_(0.1, 0.02, g); }},
    {"log_normal_", [](at::Tensor t, const auto& g) { t.log_normal_(0.1, 0.2, g); }},
    {"exponential_", [](at::Tensor t, const auto& g) { t.exponential_(1.5, g); }},
    {"cauchy_", [](at::Tensor t, const auto& g) { t.cauchy_(0.1, 0.2, g); }},
    {"geometric_", [](at::Tensor t, const auto& g) { t.geometric_(0.3, g); }},
    {"bernoulli_", [](at::Tensor t, const auto& g) { t.bernoulli_(0.3, g); }},
    {"random_", [](at::Tensor t, const auto& g) { t.random_(g); }},
    {"random_.from", [](at::Tensor t, const auto& g) { t.random_(-5, 90, g); }},
    {"random_.to", [](at::Tensor t, const auto& g) { t.random_(90, g); }},
};

at::Tensor empty_distributed(
    c10::IntArrayRef sizes,
    at::ScalarType dtype,
    const DeviceMesh& mesh,
    const Layout& layout) {
  return weft::empty(sizes, mesh, layout, {.dtype = dtype});
}

TEST(RandomStream, EveryRankHoldsItsLocalTensorOfTheNumbersOfOneDevice) {
  // Two fills, so that the generator's state in between counts too; sizes that 16 divides, does not, and is above.
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{5, 3}, {4, 4}, {7, 9}}) {
    for (const auto& [name, fill] : kFills) {
      SCOPED_TRACE(name);
      auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
      const auto first = at::empty(sizes);
      const auto second = at::empty(sizes);
      fill(first, generator);
      fill(second, generator);
      on_all_layouts(2, kPlacements, [&](const DeviceMesh& mesh, const Layout& layout) {
        const InitializationScope scope(11);
        const auto one = empty_distributed(sizes, at::kFloat, mesh, layout);
        const auto two = empty_distributed(sizes, at::kFloat, mesh, layout);
        fill(one, std::nullopt);
        fill(two, std::nullopt);
        expect_equal(to_local(one), part_of(first, mesh, layout));
        expect_equal(to_local(two), part_of(second, mesh, layout));
      });
    }
  }
}

TEST(RandomStream, OfEveryDtype) {
  for (const auto dtype : {at::kDouble, at::kHalf, at::kBFloat16}) {
    for (const auto& [name, fill] : kFills) {
      for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{3, 4}, {9, 5}}) {
        SCOPED_TRACE(c10::str(name, " ", dtype, " ", sizes));
        auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
        const auto global = at::empty(sizes, dtype);
        fill(global, generator);
        on_mesh({2}, [&](const DeviceMesh& mesh) {
          const InitializationScope scope(3);
          const auto tensor = empty_distributed(sizes, dtype, mesh, {Shard(0)});
          fill(tensor, std::nullopt);
          expect_equal(to_local(tensor), part_of(global, mesh, {Shard(0)}));
        });
      }
    }
  }
}

TEST(RandomStream, OfMoreNumbersThanAChunk) {
  constexpr int64_t kChunk = int64_t{1} << 16;
  for (const int64_t count : {kChunk, kChunk + 1, kChunk + 15, kChunk + 16, kChunk + 17, 3 * kChunk + 5}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      SCOPED_TRACE(c10::str(count, " ", dtype));
      auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
      const auto global = at::empty({count}, dtype).normal_(0, 1, generator);
      const auto after = generator.get_state();
      on_mesh({3}, [&](const DeviceMesh& mesh) {
        auto own = at::make_generator<at::CPUGeneratorImpl>(5);
        const InitializationScope scope(own);
        const auto tensor = empty_distributed({count}, dtype, mesh, {Shard(0)});
        tensor.normal_();
        expect_equal(to_local(tensor), part_of(global, mesh, {Shard(0)}));
        expect_equal(own.get_state(), after);
      });
    }
  }
}

TEST(RandomStream, ChunksThatEndInsideOfARow) {
  const std::vector<int64_t> sizes = {300, 7, 33};
  auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
  const auto global = at::empty(sizes).uniform_(0, 1, generator);
  for (const auto& layout :
       {Layout({Shard(1), Shard(2)}), Layout({Shard(2), Shard(2)}), Layout({Shard(1), Shard(0)}),
        Layout({StridedShard(2, 2), Replicate()})}) {
    SCOPED_TRACE(layout.to_string());
    on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
      const InitializationScope scope(5);
      const auto tensor = empty_distributed(sizes, at::kFloat, mesh, layout);
      tensor.uniform_();
      expect_equal(to_local(tensor), part_of(global, mesh, layout));
    });
  }
}

TEST(RandomStream, WhatIsNotContiguousIsFilledInTheOrderOfMemory) {
  for (const auto& [name, fill] : kFills) {
    SCOPED_TRACE(name);
    auto generator = at::make_generator<at::CPUGeneratorImpl>(2);
    const auto global = at::zeros({6, 5, 4});
    fill(global.permute({2, 0, 1}), generator);
    fill(global.slice(1, 0, 3), generator);
    on_all_layouts(3, {Replicate(), Shard(0), Shard(2)}, [&](const DeviceMesh& mesh, const Layout& layout) {
      const InitializationScope scope(2);
      const auto tensor = weft::zeros({6, 5, 4}, mesh, layout);
      fill(tensor.permute({2, 0, 1}), std::nullopt);
      fill(tensor.slice(1, 0, 3), std::nullopt);
      expect_equal(to_local(tensor), part_of(global, mesh, layout));
    });
  }
}

TEST(RandomStream, AGeneratorThatIsGivenIsDrawnFrom) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(9);
  const auto global = at::empty({4, 5}).normal_(0, 1, generator);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const InitializationScope scope(1);
    const auto tensor = empty_distributed({4, 5}, at::kFloat, mesh, {Shard(1)});
    tensor.normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(9));
    expect_equal(to_local(tensor), part_of(global, mesh, {Shard(1)}));
  });
}

TEST(RandomStream, NumbersOfAPartialValueAreAnError) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto partial = from_local(at::ones({2}), mesh, {Partial()});
    const InitializationScope scope(1);
    expect_contains(
        error_text<c10::ValueError>([&] { partial.uniform_(); }), "a tensor of placements R and S is required");
  });
}

} // namespace random_stream_test

} // namespace weft
