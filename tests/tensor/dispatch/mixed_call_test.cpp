#include "weft/tensor/dispatch/mixed_call.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace mixed_call_test {
using namespace weft::testing;

constexpr auto kMixed = "distributed and plain tensors cannot be mixed";

TEST(MixedCall, ListsMayHavePlainAndDistributedElements) {
  const auto global = whole_numbers({4, 6});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto plain = global.clone();
    const auto distributed = distribute_tensor(global, mesh, {Shard(0)});
    at::_foreach_addcmul_({plain, distributed}, {plain, distributed}, {plain, distributed}, 2);
    expect_equal(plain, global + 2 * global * global);
    expect_equal(full_tensor(distributed), plain);
    const auto norms = at::_foreach_norm({plain, distributed});
    EXPECT_FALSE(is_dtensor(norms[0]));
    expect_equal(full_tensor(norms[1]), norms[0]);
  });
}

TEST(MixedCall, ANumberChangesAPlainTensorInPlace) {
  const auto global = whole_numbers({4, 6});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto plain = global.clone();
    const auto two = distribute_tensor(at::full({}, 2.0F), mesh, {Replicate()});
    const auto terms = from_local(at::full({}, 2.0F), mesh, {Partial()});
    plain.mul_(two);
    expect_equal(plain, global * 2);
    plain.mul_(terms);
    expect_equal(plain, global * 8);
    const auto distributed = distribute_tensor(global, mesh, {Shard(0)});
    at::_foreach_mul_({plain, distributed}, two);
    expect_equal(plain, global * 16);
    expect_equal(full_tensor(distributed), global * 2);
  });
}

TEST(MixedCall, OtherCallsRaise) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto plain = at::ones({4});
    const auto distributed = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    const auto number = distribute_tensor(at::ones({}), mesh, {Replicate()});
    const std::vector<std::function<void()>> calls = {
        [&] { plain + distributed; },
        [&] { plain* number; },
        [&] { plain.mul_(distributed); },
        [&] { distributed.mul_(plain); },
        [&] { at::_foreach_add({plain, distributed}, {distributed, plain}); },
        [&] { at::_foreach_add_({distributed}, {plain}); },
    };
    for (const auto& call : calls) {
      expect_contains(error_text<c10::ValueError>(call), kMixed);
    }
  });
}

} // namespace mixed_call_test
} // namespace weft
