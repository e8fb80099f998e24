#include "weft/tensor/dispatch/list_call.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace list_call_test {
using namespace weft::testing;

/// What a call on lists leaves in two tensors that are both read and written.
std::vector<at::Tensor> copied(const at::Tensor& a, const at::Tensor& b) {
  at::_foreach_copy_({a, b}, {b, a});
  return {a, b};
}

TEST(ListCall, AnElementReadsWhatAnEarlierOneHasWritten) {
  const auto global = whole_numbers({4, 6});
  const auto expected = copied(global.clone(), global * 2);
  for (const auto& other : {Layout{Shard(1)}, Layout{Replicate()}, Layout{Shard(0)}}) {
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      const auto found =
          copied(distribute_tensor(global, mesh, {Shard(0)}), distribute_tensor(global * 2, mesh, other));
      expect_equal(full_tensor(found[0]), expected[0]);
      expect_equal(full_tensor(found[1]), expected[1]);
    });
  }
}

TEST(ListCall, ElementsMayBeOnDifferentMeshes) {
  const auto first = whole_numbers({4, 6}) / 8;
  const auto second = whole_numbers({8, 2}) / 4;
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const auto flat = mesh.flatten({"a", "b"});
    const auto a = distribute_tensor(first, mesh, {Shard(0), Shard(1)});
    const auto b = distribute_tensor(second, flat, {Shard(0)});
    const auto norms = at::_foreach_norm({a, b});
    expect_equal(full_tensor(norms[0]), first.norm());
    expect_equal(full_tensor(norms[1]), second.norm());
    EXPECT_EQ(spec_of(norms[0])->mesh(), mesh);
    EXPECT_EQ(spec_of(norms[1])->mesh(), flat);
    at::_foreach_mul_({a, b}, std::vector<at::Scalar>{2, 3});
    expect_equal(full_tensor(a), first * 2);
    expect_equal(full_tensor(b), second * 3);
  });
}

TEST(ListCall, OneElementIsOnOneMesh) {
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const auto a = distribute_tensor(whole_numbers({4, 4}), mesh, {Shard(0), Replicate()});
    const auto b = distribute_tensor(whole_numbers({4, 4}), mesh.flatten({"a", "b"}), {Shard(0)});
    EXPECT_THROW(at::_foreach_add({a, b}, {b, a}), c10::ValueError);
  });
}

} // namespace list_call_test
} // namespace weft
