#pragma once

#include "weft/comm/world/named_groups.h"
#include "weft/graph/analysis/fused_node.h"
#include "weft/graph/ir/program.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/to_local.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <unordered_map>

namespace weft::testing {

using ValuesOf = std::unordered_map<const graph::Value*, c10::IValue>;

inline c10::IValue argument_value(
    const graph::Node& node,
    const graph::Argument& argument,
    const c10::TypePtr& type,
    ValuesOf& values) {
  if (argument.is_operand()) {
    return values.at(node.operand(argument.operand()));
  }
  if (!argument.is_list()) {
    return argument.constant();
  }
  if (type->str().find("Optional[Tensor]") != std::string::npos || type->str().find("Tensor?") != std::string::npos) {
    c10::List<std::optional<at::Tensor>> list;
    for (const auto& element : argument.elements()) {
      list.push_back(
          element.is_operand() ? std::optional(values.at(node.operand(element.operand())).toTensor()) : std::nullopt);
    }
    return list;
  }
  c10::List<at::Tensor> list;
  for (const auto& element : argument.elements()) {
    list.push_back(values.at(node.operand(element.operand())).toTensor());
  }
  return list;
}

/// Calls an operator that communicates by itself, on the parts of its tensors: it knows no distributed ones.
inline void call_on_parts(const graph::Node& node, torch::jit::Stack& stack) {
  DeviceMesh mesh;
  const auto part = [&](const at::Tensor& tensor) {
    mesh = as_dtensor(tensor)->spec()->mesh();
    return to_local(tensor);
  };
  for (auto& value : stack) {
    if (value.isTensor()) {
      value = part(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> parts;
      for (const at::Tensor& each : value.toTensorList()) {
        parts.push_back(part(each));
      }
      value = parts;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> parts;
      for (const std::optional<at::Tensor>& each : value.toOptionalTensorList()) {
        parts.push_back(each ? std::optional(part(*each)) : std::nullopt);
      }
      value = parts;
    }
  }
  const NamedGroupScope groups(groups_of(mesh));
  node.op()->callBoxed(stack);
  const auto global = [&](const at::Tensor& local, const graph::Value& output) {
    std::vector<int64_t> sizes;
    for (const auto& size : output.tensor().sizes) {
      sizes.push_back(size.number());
    }
    return from_local(local, mesh, *output.layout, sizes);
  };
  if (stack[0].isTensor()) {
    stack[0] = global(stack[0].toTensor(), *node.output());
    return;
  }
  c10::List<at::Tensor> results;
  for (const at::Tensor& each : stack[0].toTensorList()) {
    results.push_back(global(each, *node.output(results.size())));
  }
  stack[0] = results;
}

/// Calls the nodes in order, on plain or distributed tensors, and gives what the graph returns.
inline std::vector<at::Tensor> run_graph(const graph::Graph& graph, const std::vector<at::Tensor>& inputs) {
  const at::NoGradGuard no_gradients;
  ValuesOf values;
  EXPECT_EQ(graph.inputs().size(), inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[graph.inputs()[i]] = inputs[i];
  }
  for (const auto* node = graph.first(); !node->is_return(); node = node->next()) {
    if (const auto* step = node->step()) {
      values[node->output()] = redistribute(values.at(node->operand(0)).toTensor(), step->after);
      continue;
    }
    torch::jit::Stack stack;
    for (size_t i = 0; i < node->arguments().size(); ++i) {
      const auto& formal = node->op()->schema().arguments()[i];
      const auto& argument = node->arguments()[i];
      stack.push_back(
          argument.is_absent() ? formal.default_value().value()
                               : argument_value(*node, argument, formal.type(), values));
    }
    if (is_fused_operator(*node)) {
      call_on_parts(*node, stack);
    } else {
      node->op()->callBoxed(stack);
    }
    size_t output = 0;
    const auto set = [&](const c10::IValue& value) {
      if (const auto* made = node->outputs()[output++]) {
        values[made] = value;
      }
    };
    for (size_t i = 0; i < stack.size(); ++i) {
      if (node->output_lists()[i] == graph::Node::kSingle) {
        set(stack[i]);
      } else {
        for (const c10::IValue& element : stack[i].toListRef()) {
          set(element);
        }
      }
    }
  }
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < graph.return_node()->operand_count(); ++i) {
    results.push_back(values.at(graph.return_node()->operand(i)).toTensor());
  }
  return results;
}

inline std::vector<at::Tensor> run_program(const graph::Program& program, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> all;
  size_t next = 0;
  for (const auto& input : program.inputs) {
    all.push_back(input.kind == graph::InputKind::User ? inputs.at(next++) : program.tensors.at(input.target));
  }
  return run_graph(*program.graph, all);
}

/// The operators in order: "t addmm relu".
inline std::string operators_of(const graph::Graph& graph) {
  std::string text;
  for (const auto* node = graph.first(); node != nullptr && !node->is_return(); node = node->next()) {
    auto name = target_name(*node);
    text += (text.empty() ? "" : " ") + (name.starts_with("aten::") ? name.substr(6) : name);
  }
  return text;
}

} // namespace weft::testing
