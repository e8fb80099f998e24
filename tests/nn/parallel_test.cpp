#include "weft/nn/parallel.h"

#include <gtest/gtest.h>

namespace weft::nn {

namespace parallel_test {

/// Whether its forward is that of a parallelized module.
struct AsksImpl : torch::nn::Module {
  bool forward() {
    return ParallelForward::is_active();
  }
};
TORCH_MODULE(Asks);

struct OuterImpl : torch::nn::Module {
  bool forward() {
    return inner();
  }
  Parallel<Asks> inner = register_module("inner", Parallel<Asks>());
};
TORCH_MODULE(Outer);

TEST(Parallel, ReplicatesPlainTensorsInItsForwardAndThatOfTheModulesInside) {
  Parallel<Outer> outer{};
  EXPECT_FALSE(outer());
  set_replicates_plain(*outer, true);
  EXPECT_TRUE(outer());
  EXPECT_TRUE(outer->inner());
  EXPECT_FALSE(ParallelForward::is_active());
  set_replicates_plain(*outer, false);
  EXPECT_FALSE(outer());
  EXPECT_FALSE(outer->inner());
}

struct RaisesImpl : torch::nn::Module {
  bool forward() {
    TORCH_CHECK(!ParallelForward::is_active(), "in forward");
    return false;
  }
};
TORCH_MODULE(Raises);

TEST(Parallel, AForwardThatRaisesIsLeft) {
  Parallel<Raises> raises{};
  set_replicates_plain(*raises, true);
  EXPECT_THROW(raises(), c10::Error);
  EXPECT_FALSE(ParallelForward::is_active());
}

} // namespace parallel_test

} // namespace weft::nn
