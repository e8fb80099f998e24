#include "weft/tensor/dispatch.h"
#include "tests/support/error_text.h"
#include "tests/support/layout_cases.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/rules/registry.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace dispatch_test {
using namespace weft::testing;

/// Runs `fn` on every rank of a mesh of one dim.
void on_mesh(int64_t size, const std::function<void(const DeviceMesh& mesh)>& fn) {
  run_on_ranks(size, [&](int64_t /*rank*/) { fn(init_device_mesh("cpu", {size}, {"a"})); });
}

at::Tensor whole_numbers(c10::IntArrayRef sizes, int64_t start = -3) {
  const auto count = c10::multiply_integers(sizes);
  return at::arange(start, start + count, at::kFloat).view(sizes);
}

/// A distributed tensor of any layout, partial ones included.
at::Tensor placed(const at::Tensor& global, const DeviceMesh& mesh, const Layout& layout) {
  const auto local = local_by_definition(global, layout, mesh.shape(), mesh.coordinate());
  return from_local(local, mesh, layout, global.sizes());
}

void expect_value(const at::Tensor& tensor, const at::Tensor& expected) {
  const auto actual = full_tensor(tensor);
  EXPECT_TRUE(at::equal(actual, expected)) << *spec_of(tensor) << "\n" << actual << "\ninstead of\n" << expected;
}

void expect_layout(const at::Tensor& tensor, const Layout& layout) {
  EXPECT_EQ(spec_of(tensor)->layout(), layout) << *spec_of(tensor);
}

TEST(Dispatch, PointwiseResultsEqualTheSingleDevice) {
  const auto x = whole_numbers({5, 3});
  const auto y = whole_numbers({5, 3}, 2);
  for (const auto& layout : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1), Partial()})) {
    on_mesh(4, [&](const DeviceMesh& mesh) {
      const auto dx = placed(x, mesh, layout);
      const auto dy = placed(y, mesh, {Shard(0)});
      expect_value(dx + dy, x + y);
      expect_value(dx * dy, x * y);
      expect_value(at::relu(dx), at::relu(x));
      expect_value(at::where(dx > dy, dx, dy), at::where(x > y, x, y));
    });
  }
}

TEST(Dispatch, MatrixProductsEqualTheSingleDevice) {
  const auto x = whole_numbers({5, 4});
  const auto y = whole_numbers({4, 3});
  for (const auto& layout : all_layouts(2, 2, {Replicate(), Shard(0), Shard(1), Partial()})) {
    run_on_ranks(4, [&](int64_t /*rank*/) {
      const auto mesh = init_device_mesh("cpu", {2, 2}, {"a", "b"});
      expect_value(at::mm(placed(x, mesh, layout), placed(y, mesh, {Shard(0), Shard(1)})), at::mm(x, y));
    });
  }
}

TEST(Dispatch, ShardsStayWhereNothingHasToMove) {
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto w = distribute_tensor(whole_numbers({2, 3}), mesh, {Replicate()});
    expect_layout(at::relu(x) + x, {Shard(0)});
    expect_layout(at::mm(x, w), {Shard(0)});
    expect_layout(x.sum(), {Partial()});
  });
}

TEST(Dispatch, AnInPlaceOperatorKeepsThePlacementsAndMovesTheOthers) {
  const auto x = whole_numbers({4, 2});
  const auto y = whole_numbers({4, 2}, 5);
  for (const auto& other : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1), Partial()})) {
    on_mesh(2, [&](const DeviceMesh& mesh) {
      auto dx = distribute_tensor(x, mesh, {Shard(0)});
      const auto local = to_local(dx);
      auto& result = dx.add_(placed(y, mesh, other), 2);
      EXPECT_TRUE(result.is_same(dx));
      expect_layout(dx, {Shard(0)});
      expect_value(dx, x + 2 * y);
      EXPECT_TRUE(to_local(dx).is_alias_of(local));
    });
  }
}

TEST(Dispatch, AnOutArgumentKeepsItsPlacements) {
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto x = whole_numbers({4, 2});
    auto out = distribute_tensor(at::zeros({4, 2}), mesh, {Shard(1)});
    at::add_out(out, distribute_tensor(x, mesh, {Shard(0)}), distribute_tensor(x, mesh, {Replicate()}));
    expect_layout(out, {Shard(1)});
    expect_value(out, x + x);
  });
}

TEST(Dispatch, AResultIsWrittenBackIntoAPartialTensor) {
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2}) - 3;
    auto x = placed(global, mesh, {Partial()});
    x.relu_();
    EXPECT_EQ(spec_of(x)->layout(), Layout{Partial()});
    expect_value(x, at::relu(global));
  });
}

TEST(Dispatch, AnInPlaceOperatorWithoutARuleRunsReplicatedAndKeepsThePlacements) {
  ASSERT_EQ(RuleRegistry::instance().find("aten::put_"), nullptr);
  const auto global = whole_numbers({5, 2});
  const auto index = at::tensor({1, 8, 4}, at::kLong);
  const auto source = whole_numbers({3}, 40);
  const auto expected = global.put(index, source);
  for (const auto& layout : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1), Partial()})) {
    on_mesh(2, [&](const DeviceMesh& mesh) {
      auto x = placed(global, mesh, layout);
      const auto local = to_local(x);
      auto& result = x.put_(distribute_tensor(index, mesh, {Replicate()}), distribute_tensor(source, mesh, {Shard(0)}));
      EXPECT_TRUE(result.is_same(x));
      EXPECT_TRUE(to_local(x).is_alias_of(local));
      expect_layout(x, layout);
      expect_value(x, expected);
    });
  }
}

TEST(Dispatch, AListThatIsWrittenKeepsItsPlacements) {
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto y = placed(global, mesh, {Partial()});
    at::_foreach_mul_({x, y}, 2);
    expect_layout(x, {Shard(0)});
    expect_layout(y, {Partial()});
    expect_value(x, global * 2);
    expect_value(y, global * 2);
  });
}

TEST(Dispatch, APlainTensorWithDimsIsAnErrorThatNamesTheArgument) {
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto plain = whole_numbers({4, 2});
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { x.add(plain); }),
        "[aten::add] distributed and plain tensors cannot be mixed, but argument 'other' is a plain tensor of shape "
        "[4, 2]. Distribute it with distribute_tensor or from_local, or say by a ReplicatePlainScope (in Python by "
        "weft.replicate_plain()) that it is the same on every rank.");
    expect_contains(error_text<c10::ValueError>([&] { plain.add(x); }), "but argument 'self' is a plain tensor");
    expect_contains(error_text<c10::ValueError>([&] { at::cat({x, plain}); }), "[aten::cat] distributed and plain");
  });
}

TEST(Dispatch, NumbersAndPlainTensorsWithoutDimsAreFine) {
  const auto global = whole_numbers({4, 2});
  for (const auto& layout : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1), Partial()})) {
    on_mesh(2, [&](const DeviceMesh& mesh) {
      const auto x = placed(global, mesh, layout);
      expect_value(x + 1, global + 1);
      expect_value(x * 2, global * 2);
      expect_value(1 - x, 1 - global);
      expect_value(x + at::scalar_tensor(3), global + 3);
      expect_value(at::scalar_tensor(3) * x, global * 3);
    });
  }
}

TEST(Dispatch, TensorsOfDifferentMeshesAreAnError) {
  run_on_ranks(4, [](int64_t /*rank*/) {
    const auto line = init_device_mesh("cpu", {4}, {"a"});
    const auto square = init_device_mesh("cpu", {2, 2}, {"b", "c"});
    const auto x = distribute_tensor(whole_numbers({4, 2}), line, {Shard(0)});
    const auto y = distribute_tensor(whole_numbers({4, 2}), square, {Shard(0), Replicate()});
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { x.add(y); }),
        "[aten::add] all tensors must be on the same mesh, but got mesh(a=4) and mesh(b=2,c=2). Redistribute "
        "them on one mesh through full_tensor.");
  });
}

TEST(Dispatch, AnOperatorWithoutARuleRunsOnReplicatedTensors) {
  ASSERT_EQ(RuleRegistry::instance().find("aten::put"), nullptr);
  const auto global = whole_numbers({4, 2});
  const auto index = at::tensor({1, 6}, at::kLong);
  const auto source = whole_numbers({2}, 40);
  for (const auto& layout : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1), Partial()})) {
    on_mesh(2, [&](const DeviceMesh& mesh) {
      const auto x = placed(global, mesh, layout);
      const auto result =
          at::put(x, distribute_tensor(index, mesh, {Shard(0)}), distribute_tensor(source, mesh, {Replicate()}));
      expect_layout(result, {Replicate()});
      expect_value(result, at::put(global, index, source));
      expect_layout(x, layout);
    });
  }
}

TEST(Dispatch, RunsWithoutARuleAreCounted) {
  const auto count = [] { return fallback_counts()["aten::masked_select"]; };
  const auto before = count();
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto chosen = at::masked_select(x, x > 2);
    expect_value(chosen, at::masked_select(whole_numbers({4, 2}), whole_numbers({4, 2}) > 2));
  });
  EXPECT_EQ(count(), before + 2); // once on each rank
}

TEST(Dispatch, SeveralResultsAndListsEqualTheSingleDevice) {
  const auto global = at::tensor({3.F, 1.F, 2.F, 0.F, 5.F, 4.F}).view({3, 2});
  for (const auto& layout : all_layouts(1, 2, {Replicate(), Shard(0), Shard(1), Partial()})) {
    on_mesh(2, [&](const DeviceMesh& mesh) {
      const auto x = placed(global, mesh, layout);
      const auto [values, indices] = at::sort(x, 0);
      const auto [expected_values, expected_indices] = at::sort(global, 0);
      expect_value(values, expected_values);
      expect_value(indices, expected_indices);
      expect_value(at::cat({x, x * 2}, 1), at::cat({global, global * 2}, 1));
      expect_value(x.split(1, 1)[1], global.split(1, 1)[1]);
    });
  }
}

TEST(Dispatch, TheSecondIdenticalCallIsAHit) {
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto y = distribute_tensor(global, mesh, {Replicate()});
    const auto before = call_cache_counters();
    const auto first = at::mul(x, y);
    const auto between = call_cache_counters();
    EXPECT_EQ(between.misses, before.misses + 1);
    EXPECT_EQ(between.hits, before.hits);
    const auto second = at::mul(x, y);
    const auto after = call_cache_counters();
    EXPECT_EQ(after.misses, between.misses);
    EXPECT_EQ(after.hits, between.hits + 1);
    EXPECT_EQ(after.size, between.size);
    EXPECT_EQ(spec_of(first), spec_of(second));
    expect_value(second, global * global);
  });
}

TEST(Dispatch, AnotherStaticArgumentIsAnotherCall) {
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto columns = x.sum(0);
    const auto before = call_cache_counters();
    const auto rows = x.sum(1);
    EXPECT_EQ(call_cache_counters().misses, before.misses + 1);
    expect_value(columns, global.sum(0));
    expect_value(rows, global.sum(1));
  });
}

TEST(Dispatch, ChangingScalarsDoNotFillTheCache) {
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    auto sum = distribute_tensor(at::zeros({4, 2}), mesh, {Shard(0)});
    size_t size = 0;
    for (int i = 0; i < 100; ++i) {
      sum.add_(x, i);
      sum.add_(x * static_cast<double>(i));
      size = i == 0 ? call_cache_counters().size : size;
    }
    EXPECT_EQ(call_cache_counters().size, size);
    expect_value(sum, global * (2 * 4950));
  });
}

TEST(Dispatch, AViewSharesItsBasesLocalStorage) {
  const auto views = std::vector<std::function<at::Tensor(const at::Tensor&)>>{
      [](const at::Tensor& x) { return x.view({4, 2, 2}); }, [](const at::Tensor& x) { return x.t(); },
      [](const at::Tensor& x) { return x.select(1, 2); },    [](const at::Tensor& x) { return x.slice(1, 1, 3); },
      [](const at::Tensor& x) { return x.unsqueeze(0); },    [](const at::Tensor& x) { return x.split(2, 1)[1]; }};
  for (size_t i = 0; i < views.size(); ++i) {
    on_mesh(2, [&](const DeviceMesh& mesh) {
      auto global = whole_numbers({4, 4});
      const auto x = distribute_tensor(global, mesh, {Shard(0)});
      const auto view = views[i](x);
      EXPECT_TRUE(to_local(view).is_alias_of(to_local(x))) << "view " << i;
      view.mul_(10);
      views[i](global = global.clone()).mul_(10);
      expect_value(x, global);
    });
  }
}

TEST(Dispatch, WhatIsNotContiguousCanBeReshaped) {
  on_mesh(2, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 6});
    const auto square = whole_numbers({4, 4});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    expect_value(x.t().reshape({24}), global.t().reshape({24}));
    expect_value(x.view({4, 2, 3}).transpose(1, 2).flatten(1), global.view({4, 2, 3}).transpose(1, 2).flatten(1));
    expect_value(x.t().contiguous(), global.t());
    // The same call on a local tensor with other strides.
    const auto y = distribute_tensor(square, mesh, {Shard(0)});
    expect_value(at::relu(y).view({16}), at::relu(square).view({16}));
    const auto transposed = distribute_tensor(square, mesh, {Shard(1)}).t();
    expect_value(at::relu(transposed).reshape({16}), at::relu(square.t()).reshape({16}));
  });
}

} // namespace dispatch_test

} // namespace weft
