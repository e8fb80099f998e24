#include "weft/tensor/boundary/implicit_move.h"
#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>

namespace weft {

namespace implicit_move_test {
using namespace weft::testing;

TEST(ImplicitMove, RedistributesATensorAndIsRecorded) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    const auto global = at::arange(6, at::kFloat);
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const ExplainLog log;
    const auto moved = move_implicitly("aten::some", x, {Replicate()});
    EXPECT_TRUE(at::equal(to_local(moved), global));
    ASSERT_EQ(log.calls().size(), 1U);
    EXPECT_EQ(log.calls()[0]->op, "aten::some");
    EXPECT_EQ(log.calls()[0]->bytes, 12);
    expect_contains(log.to_string(), "0: all_gather(a: S(0) -> R)");
  });
}

TEST(ImplicitMove, IsNothingWhereTheLayoutStays) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    const auto x = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    const StrictScope strict;
    EXPECT_TRUE(move_implicitly("aten::some", x, {Shard(0)}).is_same(x));
  });
}

TEST(ImplicitMove, RaisesForACopiedViewWhoseBaseHasChanged) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    auto x = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    const auto copied = x.narrow(0, 1, 2);
    x.add_(1);
    for (const auto& layout : {spec_of(copied)->layout(), Layout{Replicate()}}) {
      expect_contains(
          error_text<c10::ValueError>([&] { move_implicitly("aten::some", copied, layout); }), "has changed since");
    }
  });
}

TEST(ImplicitMove, RaisesInAStrictScope) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    const auto x = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    const StrictScope strict;
    expect_contains(
        error_text<c10::ValueError>([&] { move_implicitly("aten::some", x, {Replicate()}); }),
        "[aten::some] would communicate, which the strict scope forbids");
    expect_contains(
        error_text<c10::ValueError>([&] { reduce_implicitly("aten::some", at::ones({1}), mesh, {0}, ReduceOp::Sum); }),
        "all_reduce(sum) over a");
  });
}

TEST(ImplicitReduce, AddsTheLocalTensorsOfTheRanks) {
  run_on_ranks(3, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {3}, {"a"});
    const auto sum = reduce_implicitly("aten::some", at::full({2}, rank, at::kFloat), mesh, {0}, ReduceOp::Sum);
    EXPECT_TRUE(at::equal(sum, at::full({2}, 3, at::kFloat)));
  });
}

} // namespace implicit_move_test

} // namespace weft
