#include "tests/support/rank_programs.h"

#include "weft/graph/analysis/effects.h"

#include <ATen/ATen.h>

namespace weft::testing {

using graph::Argument;
using graph::communicates;
using graph::Node;
using graph::Program;
using graph::starts_collective;
using graph::target_name;
using graph::Value;
using graph::waits_for_collective;

namespace {

int64_t below(std::mt19937& random, int64_t end) {
  return static_cast<int64_t>(random() % end);
}

c10::IValue constant_or_value(
    const Node& node,
    const Argument& argument,
    const std::unordered_map<const Value*, c10::IValue>& values,
    const c10::Argument& schema) {
  switch (argument.kind()) {
    case Argument::Kind::Absent:
      return *schema.default_value();
    case Argument::Kind::Constant:
      return argument.constant();
    case Argument::Kind::Operand:
      return values.at(node.operand(argument.operand()));
    case Argument::Kind::List:
      break;
  }
  c10::List<at::Tensor> tensors;
  for (const auto& element : argument.elements()) {
    tensors.push_back(values.at(node.operand(element.operand())).toTensor());
  }
  return tensors;
}

at::Tensor collective(const Node& start, const at::Tensor& operand) {
  const auto other = operand + 1;
  return start.op()->schema().name() == "_c10d_functional::all_reduce" ? operand + other : at::cat({operand, other});
}

} // namespace

std::string random_rank_program(std::mt19937& random, int nodes) {
  std::string text = "program @ mesh(dp=2,tp=2)\n";
  std::vector<std::string> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back("%x" + std::to_string(i));
    text += "input " + all.back() + ": f32[4] = user\n";
  }
  std::vector<std::string> started;
  const auto wait = [&](size_t number) {
    const auto start = started[number];
    started.erase(started.begin() + static_cast<int64_t>(number));
    all.push_back("%w" + start.substr(1));
    text += all.back() + ": f32[4] = _c10d_functional::wait_tensor(" + start + ")\n";
  };
  for (int i = 0; i < nodes; ++i) {
    const auto name = "%n" + std::to_string(i);
    const auto pick = [&] { return all[below(random, static_cast<int64_t>(all.size()))]; };
    const auto node = [&](const std::string& call) {
      all.push_back(name);
      text += name + ": f32[4] = " + call + "\n";
    };
    switch (below(random, 8)) {
      case 0:
        node("aten::relu(" + pick() + ")");
        break;
      case 1:
      case 2:
        node("aten::add.Tensor(" + pick() + ", " + pick() + ")");
        break;
      case 3:
        node("aten::view(" + pick() + ", [4])");
        break;
      case 4:
        // Nothing is under way: a write to what a collective reads or gives would be a race.
        while (!started.empty()) {
          wait(0);
        }
        node("aten::mul_.Scalar(" + pick() + ", 2)");
        break;
      case 5:
        text += name + "g: f32[8] = _c10d_functional::all_gather_into_tensor(" + pick() + ", 2, \"tp\")\n";
        text += name + "a: f32[8] = _c10d_functional::wait_tensor(" + name + "g)\n";
        node("aten::slice.Tensor(" + name + "a, 0, 2, 6)");
        break;
      default:
        text += name + ": f32[4] = _c10d_functional::all_reduce(" + pick() + ", \"sum\", \"" +
            (below(random, 4) == 0 ? "dp" : "tp") + "\")\n";
        started.push_back(name);
        if (below(random, 2) == 0) {
          wait(below(random, static_cast<int64_t>(started.size())));
        }
    }
  }
  while (!started.empty()) {
    wait(0);
  }
  for (const auto& value : all) {
    text += below(random, 3) == 0 ? "output " + value + " = user\n" : "";
  }
  return text + "output " + all.back() + " = user\n";
}

std::vector<at::Tensor> run_alone(const Program& program, Transfer transfer) {
  std::unordered_map<const Value*, c10::IValue> values;
  std::vector<at::Tensor> results;
  for (const auto* input : program.graph->inputs()) {
    std::vector<int64_t> sizes;
    for (const auto& size : input->tensor().sizes) {
      sizes.push_back(size.number());
    }
    const auto ones = at::ones(sizes);
    results.push_back(at::arange(ones.numel(), at::kFloat).reshape(sizes) + static_cast<double>(results.size()));
    values[input] = results.back();
  }
  for (const auto* node = program.graph->first(); !node->is_return(); node = node->next()) {
    if (starts_collective(*node)) {
      const auto operand = values.at(node->operand(0)).toTensor();
      values[node->output()] = transfer == Transfer::AtStart ? collective(*node, operand) : operand;
      continue;
    }
    if (waits_for_collective(*node)) {
      const auto moved = values.at(node->operand(0)).toTensor();
      values[node->output()] = transfer == Transfer::AtStart ? moved : collective(*node->operand(0)->producer(), moved);
      continue;
    }
    std::vector<c10::IValue> stack;
    for (size_t i = 0; i < node->arguments().size(); ++i) {
      stack.push_back(constant_or_value(*node, node->arguments()[i], values, node->op()->schema().arguments()[i]));
    }
    node->op()->callBoxed(stack);
    if (node->output_lists()[0] == Node::kSingle) {
      values[node->output()] = stack[0];
      continue;
    }
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      values[node->output(i)] = stack[0].toTensorVector()[i];
    }
  }
  for (size_t i = 0; i < program.graph->return_node()->operand_count(); ++i) {
    results.push_back(values.at(program.graph->return_node()->operand(i)).toTensor());
  }
  return results;
}

std::vector<std::string> collectives_of(const Program& program) {
  std::vector<std::string> all;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    if (communicates(*node)) {
      all.push_back(c10::str(
          target_name(*node), " ", node->arguments().back().constant(), " ",
          node->operand(0)->tensor().sizes[0].number()));
    }
  }
  return all;
}

} // namespace weft::testing
