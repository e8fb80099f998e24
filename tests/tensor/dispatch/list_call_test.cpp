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

} // namespace list_call_test
} // namespace weft
