#include "weft/tensor/kernels/kernels.h"

#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace instance_norm_test {
using namespace weft::testing;

at::Tensor normalized(const Values& in, bool use_input_stats) {
  return at::instance_norm(in[0], in[1], in[2], in[3], in[4], use_input_stats, 0.1, 1e-5, /*cudnn_enabled=*/false);
}

TEST(InstanceNorm, EqualsTheSingleDeviceWithItsGradientsAndRunningStatistics) {
  for (const bool use_input_stats : {true, false}) {
    const Values inputs = {
        parameter({5, 4, 3}), parameter({4}), parameter({4}), parameter({4}).detach(),
        parameter({4}).detach().square() + 1};
    expect_as_plain(inputs, [&](const Values& in) -> Values {
      // Inputs are used on several meshes, and running statistics are written to.
      const Values own = {in[0], in[1], in[2], in[3].clone(), in[4].clone()};
      const auto output = normalized(own, use_input_stats);
      output.square().sum().backward();
      return {output, in[0].grad(), in[1].grad(), in[2].grad(), own[3], own[4]};
    });
  }
}

TEST(InstanceNorm, OfAnUnevenlyShardedBatchNeedsNoCommunication) {
  on_mesh({4}, [](const DeviceMesh& mesh) {
    const auto input = distribute_tensor(at::rand({5, 4, 3}), mesh, {Shard(0)}).requires_grad_();
    const CommLog log(mesh);
    const auto output = at::instance_norm(input, {}, {}, {}, {}, true, 0.1, 1e-5, /*cudnn_enabled=*/false);
    output.backward(output.detach());
    EXPECT_EQ(log.calls(), 0) << log.to_string();
    EXPECT_EQ(as_dtensor(output)->spec()->layout(), Layout({Shard(0)}));
  });
}

TEST(InstanceNorm, WithoutStatisticsOfEitherKindIsRefused) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto input = distribute_tensor(at::rand({4, 4, 3}), mesh, {Shard(0)});
    EXPECT_EQ(
        error_text([&] { at::instance_norm(input, {}, {}, {}, {}, false, 0.1, 1e-5, /*cudnn_enabled=*/false); }),
        "Expected running_mean and running_var to be defined when use_input_stats is false");
  });
}

} // namespace instance_norm_test

} // namespace weft
