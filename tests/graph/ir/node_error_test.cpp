#include "weft/graph/ir/node_error.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"

#include <system_error>

namespace weft::graph {

namespace node_error_test {
using testing::error_text;
using testing::expect_contains;

class NodeError : public ::testing::Test {
 protected:
  NodeError() {
    node_->origin.metadata = {
        {"stack_trace",
         "  File \"/home/me/run.py\", line 3, in <module>\n    model(x)\n"
         "  File \"/home/me/model.py\", line 12, in forward\n    return torch.relu(x)\n"}};
  }
  std::string error_of(const std::function<void()>& fn) {
    return error_text<std::exception>([&] { for_node(*node_, fn); });
  }

  Program program_ = parse_program(R"(program
    input %x: f32[2] = user
      %y: f32[2] = aten::relu(%x) in layers.0
    output %y = user)");
  Node* node_ = program_.graph->first();
};

TEST_F(NodeError, ANodeIsDescribedByWhatItCallsAndWhereItStands) {
  EXPECT_EQ(describe(*node_), "aten::relu for %y in module layers.0, line 12 of model.py");
  EXPECT_EQ(describe(*program_.graph->return_node()), "return");
}

TEST_F(NodeError, WhatIsDoneForANodeGivesItsResult) {
  EXPECT_EQ(for_node(*node_, [] { return 3; }), 3);
}

TEST_F(NodeError, AnInternalAssertionNamesTheNodeAndGoesToWeft) {
  const auto text = error_of([] { TORCH_INTERNAL_ASSERT(1 == 2, "one is two"); });
  expect_contains(text, "[weft] aten::relu for %y in module layers.0, line 12 of model.py ran into a defect: 1 == 2");
  expect_contains(text, "one is two. Please report it to Weft");
  EXPECT_EQ(text.find("PyTorch"), std::string::npos) << text;
}

TEST_F(NodeError, SoDoesAnExceptionOfTheStandardLibrary) {
  expect_contains(
      error_of([] { std::vector<int>().at(7); }), "[weft] aten::relu for %y in module layers.0, line 12 of model.py");
}

TEST_F(NodeError, AnErrorForUsersStaysAsItIs) {
  EXPECT_EQ(error_of([] { TORCH_CHECK_VALUE(false, "[shard] 2 is required."); }), "[shard] 2 is required.");
  EXPECT_THROW(for_node(*node_, [] { TORCH_CHECK_NOT_IMPLEMENTED(false, "[shard] no."); }), c10::NotImplementedError);
}

TEST_F(NodeError, ErrorsOfFilesAndMemoryAreNoDefects) {
  EXPECT_THROW(for_node(*node_, [] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_THROW(for_node(*node_, [] { throw std::system_error(ENOSPC, std::generic_category()); }), std::system_error);
}

TEST_F(NodeError, AKernelsErrorGetsTheNodeAsContext) {
  const auto text = error_of([] { TORCH_CHECK(false, "sizes differ"); });
  expect_contains(text, "sizes differ");
  expect_contains(text, "in aten::relu for %y in module layers.0");
}

} // namespace node_error_test

} // namespace weft::graph
