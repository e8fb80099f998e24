#include "weft/tensor/impl/explain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/rules/registry.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace explain_test {
using namespace weft::testing;

TEST(Explain, SaysHowACallWasRunAndWhy) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 8}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(whole_numbers({6, 8}), mesh, {Shard(0)}).set_requires_grad(true);
    const ExplainLog log;
    at::linear(x, weight);
    ASSERT_EQ(log.calls().size(), 1U) << log.to_string();
    const auto& call = *log.calls()[0];
    EXPECT_EQ(call.op, "aten::linear");
    EXPECT_EQ(call.inputs, (std::vector<std::string>{"f32[4,8] @ mesh(a=2) {S(0)}", "f32[6,8] @ mesh(a=2) {S(0)}"}));
    EXPECT_EQ(call.strategy, "{R} {S(0)} -> {S(1)}");
    EXPECT_EQ(call.plans, std::vector<std::string>{"0: all_gather(a: S(0) -> R)"});
    EXPECT_EQ(call.bytes, 2 * 8 * 4);
    expect_contains(call.why, "by the rule ([a,b],[c,b])->([a,c])");
    expect_contains(call.why, "; parameters stay where they are");
    EXPECT_EQ(
        log.to_string(),
        "aten::linear(f32[4,8] @ mesh(a=2) {S(0)}, f32[6,8] @ mesh(a=2) {S(0)}): {R} {S(0)} -> {S(1)}\n"
        "  0: all_gather(a: S(0) -> R)\n"
        "  64 bytes\n"
        "  " +
            call.why + "\n");
  });
}

TEST(Explain, SaysThatNothingMoves) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(1)});
    const ExplainLog log;
    at::relu(x);
    ASSERT_EQ(log.calls().size(), 1U);
    const auto& call = *log.calls()[0];
    EXPECT_TRUE(call.plans.empty());
    EXPECT_EQ(call.bytes, 0);
    EXPECT_EQ(call.strategy, "{S(1)} -> {S(1)}");
    EXPECT_EQ(call.to_string(), "aten::relu(f32[4,2] @ mesh(a=2) {S(1)}): {S(1)} -> {S(1)}\n  " + call.why);
  });
}

TEST(Explain, SaysThatThereIsNoRule) {
  ASSERT_EQ(RuleRegistry::instance().find("aten::put"), nullptr);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto index = distribute_tensor(at::tensor({1}, at::kLong), mesh, {Replicate()});
    const auto source = distribute_tensor(at::ones({1}), mesh, {Replicate()});
    const ExplainLog log;
    at::put(x, index, source);
    // put is a copy, and the writing form on that.
    EXPECT_EQ(log.calls().back()->why, "no rule for this operator: its inputs are replicated") << log.to_string();
    expect_contains(log.calls().back()->strategy, "-> {R}");
  });
}

TEST(Explain, RecordsEveryCallAlsoWhereItIsRepeatedAndInBackward) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)}).set_requires_grad(true);
    const ExplainLog log;
    const auto y = x * x;
    at::relu(y);
    at::relu(y);
    const auto forward = log.calls().size();
    EXPECT_EQ(forward, 3U) << log.to_string();
    EXPECT_EQ(log.calls()[1]->to_string(), log.calls()[2]->to_string());
    y.sum().backward();
    EXPECT_GT(log.calls().size(), forward + 1);
  });
}

TEST(Explain, TheInnermostLogRecordsWhileItLasts) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const ExplainLog outer;
    {
      const ExplainLog inner;
      at::relu(x);
      EXPECT_EQ(inner.calls().size(), 1U);
    }
    EXPECT_TRUE(outer.calls().empty());
    at::neg(x);
    ASSERT_EQ(outer.calls().size(), 1U);
    EXPECT_EQ(outer.calls()[0]->op, "aten::neg");
  });
}

} // namespace explain_test

} // namespace weft
