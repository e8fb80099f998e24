#include "weft/graph/ir/module_stack.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace module_stack_test {
using Stack = std::vector<std::pair<std::string, std::string>>;

Origin origin_of(std::string text) {
  Origin origin;
  origin.metadata = {{"stack_trace", "model.py:3"}, {"nn_module_stack", std::move(text)}};
  return origin;
}

TEST(ModuleStack, GoesFromTheModelInwards) {
  const auto origin = origin_of(
      "L__self__,,model.Model;L__self__layers.0,layers.0,model.Block;L__self__layers.0.wq,layers.0.wq,torch.nn.Linear");
  EXPECT_EQ(
      module_stack(origin),
      (Stack{{"", "model.Model"}, {"layers.0", "model.Block"}, {"layers.0.wq", "torch.nn.Linear"}}));
}

TEST(ModuleStack, TheNumberOfARepeatedCallIsNoPartOfThePath) {
  EXPECT_EQ(module_stack(origin_of("L__self__wq@1,wq@1,Linear")), (Stack{{"wq", "Linear"}}));
}

TEST(ModuleStack, CommasInBracketsArePartOfAName) {
  EXPECT_EQ(module_stack(origin_of("L['a', 1],heads[0, 1],Head")), (Stack{{"heads[0, 1]", "Head"}}));
}

TEST(ModuleStack, NodesOfNoModuleHaveNone) {
  EXPECT_EQ(module_stack(Origin()), Stack());
  EXPECT_EQ(module_stack(origin_of("_empty_nn_module_stack_from_metadata_hook,a,b")), Stack());
}

} // namespace module_stack_test

} // namespace weft::graph
