#include "weft/nn/placing.h"
#include "tests/support/on_meshes.h"
#include "weft/nn/replace_parameters.h"
#include "weft/tensor/impl/inspect.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

namespace weft::nn {

namespace placing_test {
using namespace weft::testing;

TEST(Placing, WhatIsTiedStaysTied) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    torch::nn::Embedding tokens(8, 4);
    torch::nn::Linear output(torch::nn::LinearOptions(4, 8).bias(false));
    replace_parameter(*output, "weight", tokens->weight);
    Placing placing(mesh, {});
    placing.place(*tokens, "weight", tokens->weight, {Shard(0)});
    placing.replicate_what_is_plain(*tokens);
    placing.place(*output, "weight", output->weight, {Shard(0)});
    EXPECT_TRUE(tokens->weight.is_same(output->weight));
    EXPECT_EQ(spec_of(output->weight)->layout(), Layout{Shard(0)});
    EXPECT_TRUE(output->weight.requires_grad());
  });
}

TEST(Placing, ReplicatesParametersAndBuffers) {
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    torch::nn::BatchNorm1d norm(4);
    Placing(mesh, {}).replicate_what_is_plain(*norm);
    for (const auto& tensor : {norm->weight, norm->bias, norm->running_mean, norm->running_var}) {
      EXPECT_EQ(spec_of(tensor)->layout(), (Layout{Replicate(), Replicate()}));
    }
    EXPECT_FALSE(norm->running_mean.requires_grad());
    EXPECT_TRUE(norm->weight.requires_grad());
  });
}

} // namespace placing_test

} // namespace weft::nn
