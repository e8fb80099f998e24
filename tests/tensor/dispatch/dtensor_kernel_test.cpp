#include "weft/tensor/dispatch/dtensor_kernel.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>

namespace weft {

namespace dtensor_kernel_test {
using namespace weft::testing;

DTensorKernel kernel_of(const char* name, const char* overload) {
  return DTensorKernel(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
}

std::vector<c10::IValue> call(const DTensorKernel& kernel, std::vector<c10::IValue> stack) {
  kernel.call(c10::DispatchKeySet(kDTensorKey), &stack);
  return stack;
}

TEST(DTensorKernel, ReplacesArgumentsByResults) {
  const auto add = kernel_of("aten::add", "Tensor");
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({5, 2}), mesh, {Shard(0)});
    const auto results = call(add, {x, x, 2});
    ASSERT_EQ(results.size(), 1U);
    expect_equal(full_tensor(results[0].toTensor()), whole_numbers({5, 2}) * 3);
  });
}

TEST(DTensorKernel, SaysWhichArgumentIsPlain) {
  const auto add = kernel_of("aten::add", "Tensor");
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    const auto text = error_text<c10::ValueError>([&] { call(add, {x, at::ones({4}), 1}); });
    EXPECT_NE(
        text.find("[aten::add] distributed and plain tensors cannot be mixed, but argument 'other'"), std::string::npos)
        << text;
  });
}

TEST(DTensorKernel, ACallWithoutDataDecidesNothingForOneWithData) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto on = [&](at::Device device, const Placement& placement) {
      return distribute_tensor(at::ones({4, 4}, at::TensorOptions(device)), mesh, {placement});
    };
    // Each first on meta, then with data, then on meta again; the local tensors of some have to be redistributed.
    for (const auto device : {at::Device(at::kMeta), at::Device(at::kCPU), at::Device(at::kMeta)}) {
      const std::vector<at::Tensor> results = {
          on(device, Shard(0)) * 2,
          on(device, Shard(0)).add_(1),
          on(device, Shard(0)) + on(device, Shard(1)),
          on(device, Shard(1)).matmul(on(device, Shard(1))),
          on(device, Shard(0)).cumsum(0),
          on(device, Shard(0)).narrow(0, 1, 2),
          on(device, Shard(0)).sum(),
          on(device, Shard(0)).view({2, 8}),
          on(device, Shard(0)).to(at::kDouble),
          std::get<0>(on(device, Shard(0)).max(0)),
          on(device, Shard(0)).split(1)[1],
          on(device, Shard(0)).clone(),
          at::empty_like(on(device, Shard(0))),
          redistribute(on(device, Shard(0)), {Shard(1)}),
      };
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(results[i].device().type(), device.type()) << "of result " << i;
        EXPECT_EQ(to_local(results[i]).device().type(), device.type()) << "of result " << i;
      }
    }
    expect_equal(full_tensor(on(at::kCPU, Shard(0)) + on(at::kCPU, Shard(1))), at::full({4, 4}, 2.0));
  });
}

TEST(DTensorKernel, CountsRunsWithoutARule) {
  const auto nonzero = kernel_of("aten::nonzero", "");
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    call(nonzero, {x});
  });
  EXPECT_EQ(nonzero.fallbacks(), 2U); // on each of the ranks, which are threads
}

TEST(DTensorKernel, KnowsOperatorsThatDropInside) {
  EXPECT_TRUE(kernel_of("aten::_scaled_dot_product_flash_attention_for_cpu", "").has_inner_dropout());
  EXPECT_FALSE(kernel_of("aten::add", "Tensor").has_inner_dropout());
}

} // namespace dtensor_kernel_test

} // namespace weft
