#include "weft/graph/pt2/write_types.h"

#include "tests/support/error_text.h"

namespace weft::graph {

namespace write_types_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;

const std::map<std::string, Symbol> kSymbols = {{"s77", {4, 2, 64}}, {"s1", {}}, {"u3", {}}};

TEST(WriteTypes, SizesAreNumbersOrExpressionsWithHints) {
  TypeWriter types(kSymbols);
  EXPECT_EQ(types.size(3), json({{"as_int", 3}}));
  EXPECT_EQ(types.size(Size::parse("2*s77"))["as_expr"]["hint"], json({{"as_int", 8}}));
  EXPECT_EQ(
      types.size(Size::parse("2*s77"))["as_expr"]["expr_str"],
      "Mul(Integer(2), Symbol('s77', positive=True, integer=True))");
  EXPECT_TRUE(types.size(Size::symbol("s1"))["as_expr"]["hint"].is_null());
  EXPECT_EQ(
      types.ranges(),
      json({{"s77", {{"min_val", 2}, {"max_val", 64}}}, {"s1", {{"min_val", nullptr}, {"max_val", nullptr}}}}));
}

TEST(WriteTypes, TensorsOfDtypesThatTheFormatHasNotRaise) {
  TypeWriter types(kSymbols);
  const auto meta = types.tensor(contiguous_type(at::kBFloat16, {2, Size::symbol("s77")}, c10::Device(c10::kCUDA, 1)));
  EXPECT_EQ(meta["dtype"], 13);
  EXPECT_EQ(meta["device"], json({{"type", "cuda"}, {"index", 1}}));
  expect_contains(
      error_text<c10::NotImplementedError>([&] { types.tensor(contiguous_type(at::kQInt8, {2})); }),
      "[write_pt2] tensors of QInt8 cannot be written");
}

TEST(WriteTypes, NumbersAreConstantsExpressionsOrTheFilesOwnForm) {
  TypeWriter types(kSymbols);
  EXPECT_EQ(types.number({NumberKind::Int, "7"}), json({{"as_int", 7}}));
  EXPECT_EQ(types.number({NumberKind::Float, "0.5"}), json({{"as_float", 0.5}}));
  EXPECT_EQ(types.number({NumberKind::Bool, "True"}), json({{"as_bool", true}}));
  const std::string comparison = "Equality(Symbol('s77'), Integer(2))";
  EXPECT_EQ(types.number({NumberKind::Bool, comparison})["as_expr"]["expr_str"], comparison);
}

TEST(WriteTypes, NumbersOfUnknownExpressionAreFoundFromTheirNodes) {
  Program program;
  auto& graph = *program.graph;
  auto* x = graph.add_input("x", contiguous_type(at::kFloat, {Size::symbol("s77"), 2}));
  const auto size_op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::sym_size", "int");
  const NumberType unknown;
  auto* size = graph.insert(nullptr, size_op, {Argument::operand(0), Argument(-2)}, {x}, {{unknown}})->output();
  const auto function = [&](const char* name, Arguments arguments, std::vector<Value*> operands) {
    return graph.insert(nullptr, find_scalar_function(name), std::move(arguments), operands, {{unknown}})->output();
  };
  auto* half = function("_operator.floordiv", {Argument::operand(0), Argument(2)}, {size});
  auto* more = function("_operator.add", {Argument::operand(0), Argument::operand(1)}, {half, size});
  auto* odd = function("_operator.pow", {Argument::operand(0), Argument(2)}, {size});

  TypeWriter types(kSymbols);
  EXPECT_EQ(types.number_of(more)["as_expr"]["hint"], json({{"as_int", 6}}));
  // Nothing is known of the number, so that it becomes a new symbol, the same one each time.
  EXPECT_EQ(types.number_of(odd)["as_expr"]["expr_str"], "Symbol('u4', integer=True)");
  EXPECT_EQ(types.number_of(odd), types.number_of(odd));
}

} // namespace write_types_test

} // namespace weft::graph
