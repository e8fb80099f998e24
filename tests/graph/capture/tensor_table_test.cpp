#include "weft/graph/capture/tensor_table.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

namespace weft::graph {

namespace tensor_table_test {
TEST(TensorTable, TheSameMemorySeenTheSameWayIsTheSameValue) {
  TensorTable table;
  const auto x = at::ones({2, 3});
  table.set(x, 0);
  EXPECT_EQ(table.find(x), 0U);
  const auto same = x.detach();
  EXPECT_EQ(table.find(same), 0U);
  EXPECT_FALSE(table.find_object(same).has_value());
  EXPECT_FALSE(table.find(x.t()).has_value());
  EXPECT_FALSE(table.find(x.view({3, 2})).has_value());
  EXPECT_FALSE(table.find(x[0]).has_value());
  EXPECT_FALSE(table.find(x.view(at::kInt)).has_value());
  EXPECT_FALSE(table.find(x.clone()).has_value());
  table.set(same, 1);
  EXPECT_EQ(table.find(x), 0U) << "an object keeps its own";
  EXPECT_EQ(table.find(x.detach()), 1U) << "others are the latest";
}

TEST(TensorTable, AnObjectThatGotOtherMemoryIsAnotherValue) {
  TensorTable table;
  auto x = at::ones({2});
  table.set(x, 0);
  const auto other = at::zeros({2});
  table.set(other, 1);
  x.set_data(other);
  EXPECT_EQ(table.find(x), 1U);
}

TEST(TensorTable, AddressesAreNotUsedAgain) {
  TensorTable table;
  for (ValueId i = 0; i < 100; ++i) {
    const auto x = at::ones({2});
    EXPECT_FALSE(table.find(x).has_value());
    table.set(x, i);
  }
}

TEST(TensorTable, KnowsWhatSharesMemory) {
  TensorTable table;
  const auto flat = at::ones({6});
  const auto head = flat.narrow(0, 0, 2);
  table.set(head, 0);
  EXPECT_EQ(table.overlapping(flat), 0U);
  EXPECT_FALSE(table.overlapping(flat.narrow(0, 2, 4)).has_value()) << "beside it";
  EXPECT_FALSE(table.overlapping(at::ones({6})).has_value());
  EXPECT_EQ(TensorTable::memory(flat), TensorTable::memory(head));
}

TEST(TensorTable, KnowsWhereMemoryWasTaken) {
  TensorTable table;
  const auto inside = at::ones({2});
  const auto known = at::ones({2});
  table.set(known, 0);
  table.set_hidden(inside, "aten::linear");
  table.set_hidden(known, "aten::linear");
  ASSERT_NE(table.hidden_in(inside.view({2, 1})), nullptr);
  EXPECT_EQ(*table.hidden_in(inside), "aten::linear");
  EXPECT_EQ(table.hidden_in(known), nullptr);
}

} // namespace tensor_table_test

} // namespace weft::graph
