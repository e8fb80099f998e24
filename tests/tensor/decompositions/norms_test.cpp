#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

#include <limits>

namespace weft {

namespace norms_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;
using Ints = std::vector<int64_t>;
using OptionalDims = at::OptionalIntArrayRef;

constexpr auto kInfinity = std::numeric_limits<double>::infinity();

/// Uneven shards on two and three ranks, and on (2, 2) some without elements; integers, one of them zero.
at::Tensor sample() {
  return whole_numbers({5, 3}, at::kDouble);
}

void expect_norms(const std::function<Values(const at::Tensor&)>& norms, const at::Tensor& global = sample()) {
  const auto expected = norms(global);
  on_all_layouts(2, {Replicate(), Shard(0), Shard(1), Partial()}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto actual = norms(from_local(part_of(global, mesh, layout), mesh, layout, global.sizes()));
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto value = full_tensor(actual[i]);
      EXPECT_EQ(value.sizes(), expected[i].sizes());
      EXPECT_EQ(value.scalar_type(), expected[i].scalar_type());
      EXPECT_TRUE(at::allclose(value, expected[i], 1e-12, 1e-12)) << layout << ", norm " << i << "\n"
                                                                  << value << "\ninstead of\n"
                                                                  << expected[i];
    }
  });
}

/// Of a negative order a zero would decide alone.
at::Tensor sample_for(double order) {
  return order < 0 ? sample() * 2 + 1 : sample();
}

class Norms : public ::testing::TestWithParam<double> {};

TEST_P(Norms, OfShardsAreThoseOfTheGlobalTensor) {
  const auto p = GetParam();
  for (const bool keepdim : {false, true}) {
    expect_norms(
        [&](const at::Tensor& x) -> Values {
          return {
              at::linalg_vector_norm(x, p, OptionalDims(), keepdim), at::linalg_vector_norm(x, p, Ints{0}, keepdim),
              at::linalg_vector_norm(x, p, Ints{-1}, keepdim), at::linalg_vector_norm(x, p, Ints{1, 0}, keepdim)};
        },
        sample_for(p));
  }
}

TEST_P(Norms, OfSeveralTensorsAreThoseOfEach) {
  const auto p = GetParam();
  expect_norms([&](const at::Tensor& x) -> Values { return at::_foreach_norm({x, x * 2, x.t()}, p); }, sample_for(p));
}

INSTANTIATE_TEST_SUITE_P(Orders, Norms, ::testing::Values(1.0, 2.0, 3.0, 0.5, 0.0, kInfinity, -kInfinity, -1.0, -2.0));

TEST(Norm, OlderNamesGiveTheSame) {
  expect_norms([](const at::Tensor& x) -> Values {
    return {at::norm(x), at::norm(x, 3), at::norm(x, 2, Ints{0}, true), at::norm(x, 1, Ints{1}, false, at::kDouble)};
  });
}

TEST(Norm, GradientsEqualTheSingleDevice) {
  expect_as_plain({parameter({5, 3})}, [](const Values& in) -> Values {
    const auto& x = in[0];
    (at::linalg_vector_norm(x).pow(2) + at::linalg_vector_norm(x, 3, Ints{0}).pow(2).sum() + x.norm(1) +
     at::linalg_vector_norm(x, kInfinity))
        .backward();
    return {x.grad()};
  });
}

TEST(Norm, MayBeTakenInAnotherDtype) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto global = sample().to(at::kFloat);
    const auto x = distribute_tensor(global, mesh, {Shard(1)});
    const auto norm = at::linalg_vector_norm(x, 2, OptionalDims(), false, at::kDouble);
    EXPECT_EQ(norm.scalar_type(), at::kDouble);
    EXPECT_DOUBLE_EQ(full_tensor(norm).item<double>(), sample().norm().item<double>());
  });
}

TEST(Norm, OfHalvesDoesNotOverflowBetweenRanks) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = at::full({4}, 1000, at::kHalf);
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    EXPECT_EQ(full_tensor(at::linalg_vector_norm(x)).item<double>(), at::linalg_vector_norm(global).item<double>());
    EXPECT_EQ(full_tensor(at::_foreach_norm({x})[0]).item<double>(), 2000);
  });
}

TEST(Norm, OfComplexNumbersIsReal) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto global = at::complex(at::arange(4, at::kDouble), at::ones({4}, at::kDouble));
    const auto x = distribute_tensor(global, mesh, {Shard(0)}); // nothing is left for the last rank
    const auto norm = at::linalg_vector_norm(x);
    EXPECT_EQ(norm.scalar_type(), at::kDouble);
    EXPECT_NEAR(full_tensor(norm).item<double>(), at::linalg_vector_norm(global).item<double>(), 1e-12);
    EXPECT_NEAR(
        full_tensor(at::_foreach_norm({x})[0]).item<double>(), at::linalg_vector_norm(global).item<double>(), 1e-12);
  });
}

TEST(Norm, IntegersHaveNoneOnAllRanks) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4}, at::kLong);
    const auto x = distribute_tensor(global, mesh, {Shard(0)}); // nothing is left for the last rank
    EXPECT_EQ(error_text([&] { at::linalg_vector_norm(x); }), error_text([&] { at::linalg_vector_norm(global); }));
  });
}

TEST(ForeachNorm, MakesOneAllReduce) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 6}, at::kDouble);
    Values tensors;
    for (const Layout& layout :
         {Layout{Shard(0), Replicate()},
          {Shard(1), Replicate()},
          {Replicate(), Shard(0)},
          {Shard(0), Shard(1)},
          {Shard(1), Shard(0)},
          {Replicate(), Replicate()},
          {Replicate(), Shard(1)}}) {
      tensors.push_back(distribute_tensor(global, mesh, layout));
    }
    const CommLog log(mesh);
    const auto norms = at::_foreach_norm(tensors);
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    EXPECT_EQ(log.rows().at(0).collective, Collective::AllReduce);
    EXPECT_EQ(log.rows().at(0).mesh_dims, "a,b");
    for (const auto& norm : norms) {
      EXPECT_EQ(spec_of(norm)->layout(), (Layout{Replicate(), Replicate()}));
      EXPECT_NEAR(to_local(norm).item<double>(), global.norm().item<double>(), 1e-12);
    }
  });
}

TEST(LogSumExp, OfShardsIsThatOfTheGlobalTensor) {
  for (const bool keepdim : {false, true}) {
    expect_norms([&](const at::Tensor& x) -> Values {
      return {
          at::logsumexp(x, Ints{0}, keepdim), at::logsumexp(x, Ints{1}, keepdim), at::logsumexp(x, Ints{0, 1}, keepdim),
          at::logsumexp(x * 1000, Ints{0}, keepdim), at::logsumexp(x * 0 - kInfinity, Ints{0}, keepdim)};
    });
  }
}

TEST(LogSumExp, GradientsEqualTheSingleDevice) {
  expect_as_plain({parameter({5, 3})}, [](const Values& in) -> Values {
    in[0].logsumexp(0).pow(3).sum().backward();
    return {in[0].grad()};
  });
}

} // namespace norms_test

} // namespace weft
