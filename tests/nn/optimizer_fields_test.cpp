#include "weft/nn/optimizer_fields.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>

namespace weft::nn {

namespace optimizer_fields_test {

TEST(OptimizerFields, AreThoseOfTheOptimizer) {
  const auto parameter = at::ones({2}).requires_grad_();
  torch::optim::AdamW optimizer({parameter}, torch::optim::AdamWOptions(0.5));
  parameter.sum().backward();
  optimizer.step();
  const auto& fields = optimizer_fields(optimizer);
  EXPECT_STREQ(fields.class_name, "AdamW");
  const auto options = fields.of_options(optimizer.param_groups()[0].options());
  EXPECT_STREQ(options[0].name, "lr");
  *std::get<double*>(options[0].value) = 0.25;
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.25);
  const auto state = fields.of_parameter(*optimizer.state().at(parameter.unsafeGetTensorImpl()));
  EXPECT_EQ(*std::get<int64_t*>(state[0].value), 1);
  EXPECT_EQ(std::get<at::Tensor*>(state[1].value)->sizes(), parameter.sizes());
  EXPECT_FALSE(std::get<at::Tensor*>(fields.of_parameter(*fields.make())[1].value)->defined());
}

} // namespace optimizer_fields_test

} // namespace weft::nn
