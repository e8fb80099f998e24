#include "weft/graph/ir/schema_match.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace schema_match_test {
using c10::IValue;

class SchemaMatch : public ::testing::Test {
 protected:
  SchemaMatch() {
    Value* tensor = graph.add_input("x", contiguous_type(at::kFloat, {4}));
    Value* integer = graph.add_input("i", NumberType{NumberKind::Int, {}});
    Value* real = graph.add_input("f", NumberType{NumberKind::Float, {}});
    Value* truth = graph.add_input("b", NumberType{NumberKind::Bool, {}});
    node = graph.set_return({tensor, integer, real, truth});
  }

  bool fits(const Argument& argument, const char* name, const char* overload, size_t number) const {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
    return matches(*node, argument, *op.schema().arguments()[number].real_type());
  }

  Graph graph;
  Node* node = nullptr;
  const Argument x = Argument::operand(0);
  const Argument i = Argument::operand(1);
  const Argument f = Argument::operand(2);
  const Argument b = Argument::operand(3);
};

TEST_F(SchemaMatch, ATensorOrANumberIsATensor) {
  for (const auto& argument : {x, i, f, Argument(IValue(1)), Argument(IValue(0.5)), Argument(IValue(at::ones({})))}) {
    EXPECT_TRUE(fits(argument, "aten::add", "Tensor", 1));
  }
  EXPECT_FALSE(fits(Argument(IValue("x")), "aten::add", "Tensor", 1));
  EXPECT_FALSE(fits(Argument(IValue()), "aten::add", "Tensor", 1));
  EXPECT_FALSE(fits(Argument::list({x}), "aten::add", "Tensor", 1));
  EXPECT_FALSE(fits(Argument(), "aten::add", "Tensor", 1));
  EXPECT_TRUE(fits(Argument(IValue()), "aten::linear", "", 2)); // Tensor? bias
}

TEST_F(SchemaMatch, NumbersAreOfTheirKind) {
  EXPECT_TRUE(fits(i, "aten::select", "int", 1));
  EXPECT_FALSE(fits(f, "aten::select", "int", 1));
  EXPECT_FALSE(fits(x, "aten::select", "int", 1));
  EXPECT_FALSE(fits(Argument(IValue(1.0)), "aten::select", "int", 1));
  EXPECT_TRUE(fits(f, "aten::dropout", "", 1));
  EXPECT_TRUE(fits(Argument(IValue(0)), "aten::dropout", "", 1)); // an integer for a float
  EXPECT_FALSE(fits(b, "aten::dropout", "", 1));
  EXPECT_TRUE(fits(b, "aten::dropout", "", 2));
  EXPECT_FALSE(fits(Argument(IValue(1)), "aten::dropout", "", 2));
  EXPECT_TRUE(fits(f, "aten::add", "Tensor", 2)); // Scalar alpha
  EXPECT_TRUE(fits(Argument(IValue(c10::complex<double>(0, 1))), "aten::add", "Tensor", 2));
  EXPECT_FALSE(fits(x, "aten::add", "Tensor", 2));
}

TEST_F(SchemaMatch, ListsAreOfWhatTheirElementsAre) {
  EXPECT_TRUE(fits(Argument::list({i, Argument(IValue(-1))}), "aten::view", "", 1));
  EXPECT_FALSE(fits(Argument::list({x}), "aten::view", "", 1));
  EXPECT_FALSE(fits(Argument::list({Argument::list({i})}), "aten::view", "", 1));
  EXPECT_FALSE(fits(Argument::list({Argument()}), "aten::view", "", 1));
  EXPECT_TRUE(fits(Argument(IValue(c10::List<int64_t>({1}))), "aten::view", "", 1));
  EXPECT_FALSE(fits(Argument(IValue(c10::List<double>({1.0}))), "aten::view", "", 1));
  EXPECT_FALSE(fits(Argument(IValue(4)), "aten::view", "", 1));
  EXPECT_TRUE(fits(Argument::list({x, x}), "aten::cat", "", 0));
  EXPECT_FALSE(fits(Argument::list({Argument(IValue()), x}), "aten::cat", "", 0));
  EXPECT_TRUE(fits(Argument::list({Argument(IValue()), x}), "aten::index", "Tensor", 1));
}

TEST_F(SchemaMatch, EnumsAreIntegersAndOthersTheirOwn) {
  EXPECT_TRUE(fits(Argument(IValue(at::kHalf)), "aten::to", "dtype", 1));
  EXPECT_FALSE(fits(i, "aten::to", "dtype", 1));
  EXPECT_TRUE(fits(Argument(IValue(c10::Device(c10::kCPU))), "aten::to", "device", 1));
  EXPECT_FALSE(fits(Argument(IValue("cpu")), "aten::to", "device", 1));
  EXPECT_TRUE(fits(Argument(IValue("none")), "aten::gelu", "", 1));
  EXPECT_FALSE(fits(Argument(IValue(0)), "aten::gelu", "", 1));
}

TEST_F(SchemaMatch, ReturnsAreTensorsOrNumbers) {
  const Type tensor = contiguous_type(at::kFloat, {4});
  const Type integer = NumberType{NumberKind::Int, {}};
  EXPECT_TRUE(matches(tensor, *c10::TensorType::get()));
  EXPECT_FALSE(matches(integer, *c10::TensorType::get()));
  EXPECT_TRUE(matches(integer, *c10::SymIntType::get()));
  EXPECT_TRUE(matches(integer, *c10::NumberType::get()));
  EXPECT_FALSE(matches(tensor, *c10::NumberType::get()));
  EXPECT_FALSE(matches(integer, *c10::StringType::get()));
}

} // namespace schema_match_test

} // namespace weft::graph
