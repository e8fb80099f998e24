#include "tests/support/against_plain.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

#include <torch/autograd.h>

namespace weft {

namespace batch_norm_backward_test {
using namespace weft::testing;

TEST(BatchNormBackward, GradientsAndTheirGradientsEqualTheSingleDevice) {
  expect_as_plain({parameter({5, 4, 3}), parameter({4}), parameter({4})}, [](const Values& in) -> Values {
    const auto output = at::batch_norm(in[0], in[1], in[2], {}, {}, true, 0.1, 1e-5, /*cudnn_enabled=*/false);
    const auto loss = output.pow(3).sum();
    const auto first = torch::autograd::grad({loss}, {in[0], in[1], in[2]}, {}, std::nullopt, /*create_graph=*/true);
    auto total = first[0].square().sum() + first[1].square().sum() + first[2].square().sum();
    const auto second = torch::autograd::grad({total}, {in[0], in[1]});
    return {output, first[0], first[1], first[2], second[0], second[1]};
  });
}

TEST(BatchNormBackward, InEvaluationGradientsEqualTheSingleDevice) {
  const auto mean = at::arange(4, at::kDouble);
  const Values inputs = {parameter({5, 4, 3}), parameter({4}), parameter({4}), mean, mean + 1};
  expect_as_plain(inputs, [](const Values& in) -> Values {
    const auto output = at::batch_norm(in[0], in[1], in[2], in[3], in[4], false, 0.1, 1e-5, /*cudnn_enabled=*/false);
    output.square().sum().backward();
    return {output, in[0].grad(), in[1].grad(), in[2].grad()};
  });
}

TEST(BatchNormBackward, OnlyWhatIsAskedForComesOut) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto input = distribute_tensor(at::rand({5, 4}), mesh, {Shard(0)});
    const auto replicated = distribute_tensor(at::rand({4}), mesh, {Replicate()});
    const CommLog log(mesh);
    const auto [of_input, of_weight, of_bias] = at::native_batch_norm_backward(
        input, input, {}, {}, {}, replicated, replicated, true, 1e-5, {false, false, true});
    EXPECT_FALSE(of_input.defined() || of_weight.defined());
    EXPECT_EQ(as_dtensor(of_bias)->spec()->layout(), Layout({Partial()})); // reduced with the other gradients
    EXPECT_EQ(log.calls(), 0) << log.to_string();
  });
}

} // namespace batch_norm_backward_test

} // namespace weft
