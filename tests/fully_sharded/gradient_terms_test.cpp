#include "weft/fully_sharded/gradient_terms.h"

#include "tests/support/on_meshes.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/to_local.h"

#include <gtest/gtest.h>

namespace weft {

namespace gradient_terms_test {
using namespace weft::testing;

SpecPtr shard_on(const DeviceMesh& mesh, const Placement& other) {
  return TensorSpec::make(mesh, Layout{RaggedShard(0, {3, 1}), other}, {4, 6}, at::kFloat);
}

/// The terms of all ranks as one distributed tensor.
at::Tensor value_of(const GradientTerm& term, const SpecPtr& shard) {
  return full_tensor(make_dtensor(term.local, shard->with(term.layout)));
}

TEST(GradientTerms, InTheGlobalViewAnyLayoutBecomesTerms) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto values = whole_numbers({4, 6});
    const auto shard = shard_on(mesh, Shard(1));
    const ShardDims dims{mesh.name(0), std::nullopt};
    for (const Layout& layout :
         {Layout{Replicate(), Replicate()}, Layout{Shard(1), Shard(0)}, Layout{Partial(), Shard(1)},
          Layout{Partial(ReduceOp::Avg), Partial()}}) {
      const auto gradient = redistribute(distribute_tensor(values, mesh, {Replicate(), Replicate()}), layout);
      const auto term = term_in_global_view(gradient, shard, dims, std::nullopt);
      EXPECT_EQ(term.layout, (Layout{Partial(), Shard(1)})) << layout;
      expect_equal(value_of(term, shard), values);
    }
  });
}

TEST(GradientTerms, TermsOverOtherMeshDimsStayTerms) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto values = whole_numbers({4, 6});
    const auto shard = shard_on(mesh, Replicate());
    const ShardDims dims{mesh.name(0), std::nullopt};
    const auto gradient = from_local(values, mesh, {Partial(), Partial()});
    const auto term = term_in_global_view(gradient, shard, dims, std::nullopt);
    EXPECT_EQ(term.layout, (Layout{Partial(), Partial()}));
    expect_equal(value_of(term, shard), values * 4);
    // Later terms have the layout of those to which they are added.
    const auto later = term_in_global_view(gradient, shard, dims, Layout{Partial(), Replicate()});
    EXPECT_EQ(later.layout, (Layout{Partial(), Replicate()}));
    expect_equal(value_of(later, shard), values * 4);
  });
}

TEST(GradientTerms, OfOwnDataAreAveragedOverReplicas) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto shard = shard_on(mesh, Replicate());
    const auto values = whole_numbers({4, 6});
    const auto term = term_of_own_data(values, shard, {mesh.name(0), mesh.name(1)}, std::nullopt);
    EXPECT_EQ(term.layout[1], Partial(ReduceOp::Avg));
    expect_equal(term.local, values);
  });
}

TEST(GradientTerms, OfOwnDataMayBeDistributedOverTheOtherMeshDims) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto values = whole_numbers({4, 6});
    const auto inner = mesh.submesh({mesh.name(1)});
    const ShardDims dims{mesh.name(0), std::nullopt};
    const auto columns = distribute_tensor(values, inner, {Shard(1)});
    const auto term = term_of_own_data(columns, shard_on(mesh, Shard(1)), dims, std::nullopt);
    EXPECT_EQ(term.layout[1], Shard(1));
    expect_equal(term.local, as_dtensor(columns)->local());
    const auto constant = term_of_own_data(values, shard_on(mesh, Shard(1)), dims, std::nullopt);
    expect_equal(constant.local, as_dtensor(columns)->local());
    const auto added = term_of_own_data(values, shard_on(mesh, Replicate()), dims, Layout{Partial(), Partial()});
    EXPECT_EQ(added.layout[1], Partial());
    expect_equal(
        full_tensor(make_dtensor(added.local, TensorSpec::make(inner, Layout{Partial()}, {4, 6}, at::kFloat))), values);
    const auto sums = from_local(values, inner, {Partial()});
    EXPECT_EQ(term_of_own_data(sums, shard_on(mesh, Replicate()), dims, std::nullopt).layout[1], Partial());
  });
}

} // namespace gradient_terms_test
} // namespace weft
