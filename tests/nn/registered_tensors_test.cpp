#include "weft/nn/registered_tensors.h"

#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

namespace weft::nn {

namespace registered_tensors_test {
TEST(RegisteredTensors, AreThoseOfTheModuleItself) {
  torch::nn::BatchNorm1d norm(4);
  EXPECT_EQ(registered_parameters(*norm).keys(), (std::vector<std::string>{"weight", "bias"}));
  EXPECT_EQ(
      registered_buffers(*norm).keys(),
      (std::vector<std::string>{"running_mean", "running_var", "num_batches_tracked"}));
  registered_parameters(*norm)["weight"] = at::full({4}, 7.0F);
  registered_buffers(*norm)["running_mean"] = at::full({4}, 8.0F);
  EXPECT_EQ(norm->named_parameters()["weight"][0].item<float>(), 7);
  EXPECT_EQ(norm->named_buffers()["running_mean"][0].item<float>(), 8);
}

TEST(RegisteredTensors, UndefinedOnesAreAmongThem) {
  torch::nn::Linear linear(torch::nn::LinearOptions(2, 2).bias(false));
  EXPECT_FALSE(registered_parameters(*linear)["bias"].defined());
}

} // namespace registered_tensors_test

} // namespace weft::nn
