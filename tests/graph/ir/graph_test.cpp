#include "weft/graph/ir/graph.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <ctime>

namespace weft::graph {

namespace graph_test {
using testing::error_text;
using testing::expect_contains;

c10::OperatorHandle op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

Type vector() {
  return contiguous_type(at::kFloat, {4});
}

Node* insert_relu(Graph& graph, Value* value, Node* before = nullptr) {
  return graph.insert(before, op("aten::relu"), {Argument::operand(0)}, {value}, {.types = {vector()}});
}

/// Every use names the operand that it is.
void expect_uses(const Value& value, const std::vector<const Node*>& nodes) {
  std::multiset<const Node*> found;
  for (const auto& [node, operand] : value.uses()) {
    EXPECT_EQ(node->operand(operand), &value);
    found.insert(node);
  }
  EXPECT_EQ(found, std::multiset<const Node*>(nodes.begin(), nodes.end()));
}

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> all;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    all.push_back(node->is_return() ? "return" : node->output()->name());
  }
  return all;
}

TEST(Argument, IsAbsentAConstantAnOperandOrAList) {
  EXPECT_TRUE(Argument().is_absent());
  EXPECT_TRUE(Argument(c10::IValue()).is_constant()); // None is not absent
  EXPECT_EQ(Argument(c10::IValue(3)).constant().toInt(), 3);
  EXPECT_EQ(Argument::operand(2).operand(), 2);
  const auto list = Argument::list({Argument::operand(1), c10::IValue(4)});
  EXPECT_TRUE(list.is_list());
  EXPECT_TRUE(list.elements()[0].is_operand());
  EXPECT_EQ(list.elements()[1].constant().toInt(), 4);
}

TEST(Graph, NamesCountAsExportedProgramsDo) {
  Graph graph;
  auto* x = graph.add_input("x", vector());
  auto* a = insert_relu(graph, x);
  auto* b = insert_relu(graph, a->output());
  insert_relu(graph, b->output());
  graph.set_return({b->output()});
  EXPECT_EQ(names(graph), (std::vector<std::string>{"relu", "relu_1", "relu_2", "return"}));
  EXPECT_EQ(graph.add_input("x", vector())->name(), "x_1");
  EXPECT_EQ(graph.size(), 4);
  EXPECT_EQ(target_name(*a), "aten::relu");
  EXPECT_EQ(target_name(*graph.return_node()), "return");
}

TEST(Graph, ANodeHasOutputsListsAndNothing) {
  Graph graph;
  auto* x = graph.add_input("x", vector());
  auto* node = graph.insert(
      nullptr, op("aten::unbind", "int"), {Argument::operand(0), Argument()}, {x},
      {.types = {vector(), std::nullopt}, .lists = {2}, .names = {"first"}});
  EXPECT_EQ(node->output(0)->name(), "first");
  EXPECT_EQ(node->output(0)->producer(), node);
  EXPECT_EQ(node->output(1), nullptr);
  EXPECT_EQ(node->output_lists(), std::vector<int64_t>{2});
  node->set_constant(1, 0);
  EXPECT_EQ(node->arguments()[1].constant().toInt(), 0);
}

TEST(Graph, OperandsAndUsesKnowEachOther) {
  Graph graph;
  auto* x = graph.add_input("x", vector());
  auto* y = graph.add_input("y", vector());
  auto* sum = graph.insert(
      nullptr, op("aten::add", "Tensor"), {Argument::operand(0), Argument::operand(1), Argument()}, {x, x},
      {.types = {vector()}});
  auto* relu = insert_relu(graph, x);
  expect_uses(*x, {sum, sum, relu});
  sum->set_operand(0, y);
  expect_uses(*x, {sum, relu});
  expect_uses(*y, {sum});
  sum->set_operand(0, y);
  expect_uses(*y, {sum});
  graph.replace_all_uses(x, y);
  expect_uses(*x, {});
  expect_uses(*y, {sum, sum, relu});
  graph.replace_all_uses(y, y);
  expect_uses(*y, {sum, sum, relu});
  graph.erase(sum);
  expect_uses(*y, {relu});
  EXPECT_EQ(graph.size(), 1);
}

TEST(Graph, OnlyWhatIsUnusedCanBeErased) {
  Graph graph;
  auto* relu = insert_relu(graph, graph.add_input("x", vector()));
  auto* result = graph.set_return({relu->output()});
  expect_contains(error_text([&] { graph.erase(relu); }), "%relu is still used");
  graph.erase(result);
  EXPECT_EQ(graph.return_node(), nullptr);
  graph.erase(relu);
  EXPECT_EQ(graph.first(), nullptr);
}

TEST(Graph, NodesMoveAndStayWhatTheyAre) {
  Graph graph;
  auto* x = graph.add_input("x", vector());
  auto* a = insert_relu(graph, x);
  auto* b = insert_relu(graph, x);
  auto* c = insert_relu(graph, x, a);
  EXPECT_EQ(names(graph), (std::vector<std::string>{"relu_2", "relu", "relu_1"}));
  graph.move_before(b, c);
  EXPECT_EQ(names(graph), (std::vector<std::string>{"relu_1", "relu_2", "relu"}));
  EXPECT_EQ(b->previous(), nullptr);
  EXPECT_EQ(b->next(), c);
  EXPECT_EQ(c->previous(), b);
  graph.move_before(b, nullptr);
  EXPECT_EQ(names(graph), (std::vector<std::string>{"relu_2", "relu", "relu_1"}));
  expect_uses(*x, {a, b, c});
}

TEST(Graph, ChangesTakeConstantTimePerUse) {
  // With a search through the uses, this would be 10^10 comparisons.
  constexpr size_t kNodes = 100000;
  Graph graph;
  auto* x = graph.add_input("x", vector());
  auto* y = graph.add_input("y", vector());
  std::vector<Node*> nodes;
  for (size_t i = 0; i < kNodes; ++i) {
    nodes.push_back(insert_relu(graph, x));
  }
  const auto start = std::clock();
  for (auto* node : nodes) {
    node->set_operand(0, y);
    graph.move_before(node, nodes[0]);
  }
  graph.replace_all_uses(y, x);
  EXPECT_EQ(x->uses().size(), kNodes);
  for (auto* node : nodes) {
    graph.erase(node);
  }
  EXPECT_TRUE(x->uses().empty());
  EXPECT_EQ(graph.size(), 0);
  EXPECT_LT((std::clock() - start) / CLOCKS_PER_SEC, 10);
}

} // namespace graph_test

} // namespace weft::graph
