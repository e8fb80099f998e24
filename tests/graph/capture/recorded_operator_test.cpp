#include "weft/graph/capture/recorded_operator.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <gtest/gtest.h>

namespace weft::graph {

namespace recorded_operator_test {
c10::OperatorHandle find(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

TEST(RecordedOperator, KnowsItsTensors) {
  const std::vector<c10::IValue> arguments{c10::IValue(1), std::vector{at::ones({1}), at::ones({1})}};
  EXPECT_TRUE(takes_tensors(arguments));
  EXPECT_FALSE(takes_tensors({c10::IValue(1)}));
  int count = 0;
  each_tensor(arguments[1], [&](const at::Tensor&) { ++count; });
  EXPECT_EQ(count, 2);
  EXPECT_TRUE(gives_tensors(find("aten::chunk").schema()));
  EXPECT_TRUE(gives_tensors(find("aten::relu").schema()));
  EXPECT_FALSE(gives_tensors(find("aten::is_same_size").schema()));
}

TEST(RecordedOperator, KnowsWhatIsWrittenViewedAndBlank) {
  EXPECT_TRUE(is_written(find("aten::relu_").schema().arguments()[0]));
  EXPECT_FALSE(is_written(find("aten::relu").schema().arguments()[0]));
  EXPECT_TRUE(is_view(find("aten::t").schema()));
  EXPECT_FALSE(is_view(find("aten::relu").schema()));
  EXPECT_FALSE(is_view(find("aten::relu_").schema()));
  EXPECT_TRUE(gives_blank(find("aten::empty", "memory_format").schema()));
  EXPECT_FALSE(gives_blank(find("aten::zeros").schema()));
}

TEST(RecordedOperator, KnowsWhatDependsOnValues) {
  EXPECT_TRUE(reads_numbers(find("aten::item")));
  EXPECT_TRUE(reads_numbers(find("aten::_local_scalar_dense")));
  EXPECT_TRUE(reads_numbers(find("aten::equal")));
  EXPECT_FALSE(reads_numbers(find("aten::sum")));
  const auto x = at::ones({2});
  EXPECT_TRUE(has_open_shape(find("aten::nonzero"), {x}));
  const auto index = find("aten::index", "Tensor");
  const auto at_positions = [](const at::Tensor& positions) {
    c10::List<std::optional<at::Tensor>> list;
    list.push_back(positions);
    return list;
  };
  EXPECT_FALSE(has_open_shape(index, {x, at_positions(at::zeros({1}, at::kLong))}));
  EXPECT_TRUE(has_open_shape(index, {x, at_positions(x > 0)}));
}

TEST(RecordedOperator, KnowsTheOneThatTakesANumber) {
  const auto name = [](const c10::OperatorHandle& op) {
    const auto found = taking_number(op);
    return found ? c10::toString(found->operator_name()) : "";
  };
  EXPECT_EQ(name(find("aten::div", "Tensor_mode")), "aten::div.Scalar_mode");
  EXPECT_EQ(name(find("aten::pow", "Tensor_Tensor")), "aten::pow.Tensor_Scalar");
  EXPECT_EQ(name(find("aten::relu")), "");
  EXPECT_EQ(wrapped_number(at::native::wrapped_scalar_tensor(2))->toInt(), 2);
  EXPECT_FALSE(wrapped_number(at::ones({})).has_value());
}

TEST(RecordedOperator, KnowsDefaults) {
  const auto& alpha = find("aten::add", "Tensor").schema().arguments()[2];
  EXPECT_TRUE(is_default(alpha, c10::IValue(1)));
  EXPECT_FALSE(is_default(alpha, c10::IValue(2)));
  EXPECT_FALSE(is_default(alpha, c10::IValue(1.0))) << "of another type";
}

} // namespace recorded_operator_test

} // namespace weft::graph
