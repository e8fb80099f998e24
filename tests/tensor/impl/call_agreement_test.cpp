#include "weft/tensor/impl/call_agreement.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/scopes.h"

#include <chrono>

namespace weft {

namespace call_agreement_test {
using namespace weft::testing;

/// A short timeout, so that waiting for a collective that another rank does not start fails soon, with another text.
constexpr RunOptions kShort = {.timeout = std::chrono::seconds(10)};

TEST(CallAgreement, RanksThatCallTheSameGoOn) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({5, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0), Shard(1)});
    const DebugScope debug;
    expect_equal(full_tensor((x * 2).sum() + x.t().amax()), (global * 2).sum() + global.t().amax());
  });
}

TEST(CallAgreement, DifferentOperatorsAreAnErrorOnAllRanksThatNamesBoth) {
  std::vector<std::string> errors(3);
  run_on_ranks(
      3,
      [&](int64_t rank) {
        const auto mesh = init_device_mesh("cpu", {3}, {"a"});
        const auto x = distribute_tensor(whole_numbers({6, 2}), mesh, {Shard(0)});
        const DebugScope debug;
        errors[rank] = error_text([&] { rank == 2 ? at::cumsum(x, 0) : at::cumprod(x, 0); });
      },
      kShort);
  for (const auto& error : errors) {
    EXPECT_EQ(error, errors[0]);
  }
  expect_contains(
      errors[0],
      "[debug] all ranks must call the same operators in the same way, but rank 0 calls "
      "aten::cumprod(f32[6,2] @ mesh(a=3) {S(0)}): ");
  expect_contains(errors[0], "\nand rank 2 calls aten::cumsum(f32[6,2] @ mesh(a=3) {S(0)}): ");
  expect_contains(errors[0], "\nLook for a branch that depends on the rank or on local values.");
}

TEST(CallAgreement, TheSameOperatorOnOtherTensorsIsAnError) {
  std::vector<std::string> errors(2);
  run_on_ranks(
      2,
      [&](int64_t rank) {
        const auto mesh = init_device_mesh("cpu", {2}, {"a"});
        const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
        const auto y = distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)});
        const DebugScope debug;
        errors[rank] = error_text([&] { at::relu(rank == 0 ? x : y); });
      },
      kShort);
  EXPECT_EQ(errors[0], errors[1]);
  expect_contains(errors[0], "but rank 0 calls aten::relu(f32[4,2] @ mesh(a=2) {S(0)}): ");
  expect_contains(errors[0], "and rank 1 calls aten::relu(f32[4,3] @ mesh(a=2) {S(0)}): ");
}

TEST(CallAgreement, RanksGoOnAfterTheError) {
  run_on_ranks(
      2,
      [](int64_t rank) {
        const auto mesh = init_device_mesh("cpu", {2}, {"a"});
        const auto global = whole_numbers({4, 2});
        const auto x = distribute_tensor(global, mesh, {Shard(0)});
        const DebugScope debug;
        expect_contains(error_text([&] { rank == 0 ? at::neg(x) : at::relu(x); }), "[debug] all ranks must call");
        expect_equal(full_tensor(at::neg(x)), -global);
      },
      kShort);
}

TEST(CallAgreement, RanksOfOtherMeshesAreNotAsked) {
  run_on_ranks(
      4,
      [](int64_t rank) {
        const auto mesh = init_device_mesh("cpu", {2, 2}, {"a", "b"}).submesh({"b"});
        const auto global = whole_numbers({4, 2});
        const auto x = distribute_tensor(global, mesh, {Shard(0)});
        const DebugScope debug;
        const auto y = rank < 2 ? at::neg(x) : at::abs(x);
        expect_equal(full_tensor(y), rank < 2 ? -global : global.abs());
      },
      kShort);
}

} // namespace call_agreement_test

} // namespace weft
