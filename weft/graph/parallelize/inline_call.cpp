#include "weft/graph/parallelize/inline_call.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/capture/inline_composite.h"

#include <c10/util/Exception.h>

#include <set>

namespace weft::graph {

namespace {

using Mapping = std::unordered_map<const Value*, Value*>;

TensorType of_numbers(const TensorType& type, const TrialValues& values) {
  auto result = type;
  for (auto* sizes : {&result.sizes, &result.strides}) {
    for (auto& size : *sizes) {
      size = values.of(size);
    }
  }
  return result;
}

/// The sizes of a tensor, or a number that is a size.
Sizes sizes_of(const Value& value) {
  if (value.is_tensor()) {
    return value.tensor().sizes;
  }
  const auto& number = std::get<NumberType>(value.type);
  return number.kind == NumberKind::Int && !number.expression.empty() ? Sizes{Size::parse(number.expression)} : Sizes{};
}

/// The expression of a number that has these values under two choices of trial values; nothing if they do not determine
/// it.
std::optional<Size> understood(int64_t one, const StandIns& ones, int64_t other, const StandIns& others) {
  const auto size = written_out(one, ones);
  return size == written_out(other, others) ? std::optional<Size>(size) : std::nullopt;
}

/// Translates a node of one recording, with its counterpart in the other, to a node with symbols.
class Rewriting {
 public:
  Rewriting(const StandIns& ones, const StandIns& others) : ones_(ones), others_(others) {}

  std::optional<Type> type(const Value& one, const Value& other) const {
    if (!one.is_tensor() || !other.is_tensor() || one.tensor().dim() != other.tensor().dim()) {
      return std::nullopt;
    }
    auto result = one.tensor();
    const auto rewrite = [&](Sizes& sizes, const Sizes& counterparts) {
      for (size_t d = 0; d < sizes.size(); ++d) {
        const auto size = understood(sizes[d].number(), ones_, counterparts[d].number(), others_);
        if (!size) {
          return false;
        }
        sizes[d] = *size;
      }
      return true;
    };
    const bool is_understood =
        rewrite(result.sizes, other.tensor().sizes) && rewrite(result.strides, other.tensor().strides);
    return is_understood ? std::optional<Type>(result) : std::nullopt;
  }

  /// The arguments for GraphBuilder; nothing if an argument cannot be translated.
  std::optional<GraphBuilder::Argument> argument(
      const Node& one,
      const Argument& argument,
      const Argument& other,
      const Mapping& values) const {
    if (argument.kind() != other.kind()) {
      return std::nullopt;
    }
    if (argument.is_operand()) {
      return values.at(one.operand(argument.operand()));
    }
    if (argument.is_list()) {
      std::vector<Value*> elements;
      for (const auto& element : argument.elements()) {
        if (!element.is_operand()) {
          return std::nullopt;
        }
        elements.push_back(values.at(one.operand(element.operand())));
      }
      return elements;
    }
    return argument.is_absent() ? GraphBuilder::Argument(Absent{}) : constant(argument.constant(), other.constant());
  }

 private:
  std::optional<GraphBuilder::Argument> constant(const c10::IValue& one, const c10::IValue& other) const {
    if (one.isInt() && other.isInt()) {
      const auto size = understood(one.toInt(), ones_, other.toInt(), others_);
      return size ? std::optional<GraphBuilder::Argument>(*size) : std::nullopt;
    }
    if (one.isIntList() && other.isIntList() && one.toIntVector().size() == other.toIntVector().size()) {
      Sizes sizes;
      for (size_t i = 0; i < one.toIntVector().size(); ++i) {
        const auto size = understood(one.toIntVector()[i], ones_, other.toIntVector()[i], others_);
        if (!size) {
          return std::nullopt;
        }
        sizes.push_back(*size);
      }
      return sizes;
    }
    return one == other ? std::optional<GraphBuilder::Argument>(one) : std::nullopt;
  }

  const StandIns& ones_;
  const StandIns& others_;
};

} // namespace

CallInliner::CallInliner(
    Program& program,
    const TrialValues& values,
    const TrialValues& other_values,
    const DeviceMesh& mesh)
    : program_(program),
      values_(values),
      other_values_(other_values),
      mesh_(make_fake_world(mesh.size()), mesh.device_type(), mesh.shape(), mesh.names()) {}

bool CallInliner::has_symbols(const Node& node) const {
  const auto is_symbolic = [](const Value* value) {
    return value != nullptr &&
        (!value->is_tensor() ||
         std::any_of(value->tensor().sizes.begin(), value->tensor().sizes.end(), [](const Size& size) {
           return !size.is_number();
         }));
  };
  for (size_t i = 0; i < node.operand_count(); ++i) {
    if (is_symbolic(node.operand(i))) {
      return true;
    }
  }
  return std::any_of(node.outputs().begin(), node.outputs().end(), is_symbolic);
}

bool CallInliner::can_be_recorded(const Node& node, const TrialValues& values) const {
  for (size_t i = 0; i < node.operand_count(); ++i) {
    const auto* operand = node.operand(i);
    const auto sizes = sizes_of(*operand);
    const bool is_size = operand->is_tensor() || !sizes.empty();
    if (!is_size ||
        !std::all_of(sizes.begin(), sizes.end(), [&](const Size& size) { return values.is_possible(size); })) {
      return false;
    }
  }
  return true;
}

bool CallInliner::composite(Node* node) {
  if (has_symbols(*node)) {
    return node->op()->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
        replaced_by_recordings(node, nullptr);
  }
  return inline_composite(*program_.graph, node);
}

bool CallInliner::by_kernel(Node* node, const c10::KernelFunction& kernel) {
  if (has_symbols(*node)) {
    return replaced_by_recordings(node, &kernel);
  }
  inline_kernel(*program_.graph, node, kernel, mesh_);
  return true;
}

std::optional<CallInliner::Recording> CallInliner::record(
    const Node& node,
    const TrialValues& values,
    const c10::KernelFunction* kernel) const {
  Recording recording{std::make_unique<Graph>(), values.stand_ins()};
  std::vector<Value*> tensors;
  std::vector<size_t> numbers(node.operand_count());
  for (size_t i = 0; i < node.operand_count(); ++i) {
    const auto* operand = node.operand(i);
    if (operand->is_tensor()) {
      numbers[i] = tensors.size();
      tensors.push_back(recording.graph->add_input(operand->name(), of_numbers(operand->tensor(), values)));
      tensors.back()->layout = operand->layout;
    }
  }
  const std::function<Argument(const Argument&)> of_tensors = [&](const Argument& argument) -> Argument {
    if (argument.is_operand()) {
      const auto* operand = node.operand(argument.operand());
      return operand->is_tensor() ? Argument::operand(numbers[argument.operand()]) : Argument(values.of(operand));
    }
    if (!argument.is_list()) {
      return argument;
    }
    std::vector<Argument> elements;
    std::vector<int64_t> integers;
    for (const auto& element : argument.elements()) {
      elements.push_back(of_tensors(element));
      if (elements.back().is_constant() && elements.back().constant().isInt()) {
        integers.push_back(elements.back().constant().toInt());
      }
    }
    return integers.size() == elements.size() ? Argument(c10::IValue(integers)) : Argument::list(std::move(elements));
  };
  Arguments arguments;
  for (const auto& argument : node.arguments()) {
    arguments.push_back(of_tensors(argument));
  }
  OutputTypes outputs;
  outputs.lists = node.output_lists();
  for (const auto* output : node.outputs()) {
    if (output != nullptr && !output->is_tensor()) {
      return std::nullopt;
    }
    outputs.types.push_back(
        output == nullptr ? std::nullopt : std::optional<Type>(of_numbers(output->tensor(), values)));
  }
  auto* call = recording.graph->insert(nullptr, node.target(), std::move(arguments), tensors, std::move(outputs));
  std::vector<Value*> results;
  for (auto* output : call->outputs()) {
    if (output != nullptr) {
      results.push_back(output);
    }
  }
  recording.graph->set_return(results);
  if (kernel != nullptr) {
    inline_kernel(*recording.graph, call, *kernel, mesh_);
  } else if (!inline_composite(*recording.graph, call)) {
    return std::nullopt;
  }
  return recording;
}

bool CallInliner::define_symbols(GraphBuilder& build, Node* before) const {
  std::set<std::string> wanted;
  const auto add = [&](const Value* value) {
    for (const auto& size : sizes_of(*value)) {
      const auto symbols = size.symbols();
      wanted.insert(symbols.begin(), symbols.end());
    }
  };
  for (size_t i = 0; i < before->operand_count(); ++i) {
    add(before->operand(i));
  }
  std::vector<std::pair<std::string, std::function<Value*()>>> defined;
  for (const auto& input : program_.inputs) {
    if (input.kind != InputKind::User || input.value == nullptr) {
      continue;
    }
    const auto sizes = sizes_of(*input.value);
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (!sizes[d].is_symbol() || wanted.erase(sizes[d].name()) == 0) {
        continue;
      }
      const auto symbol = sizes[d].name();
      auto* const value = input.value;
      defined.emplace_back(symbol, [&build, value, symbol, d] {
        return !value->is_tensor() ? value
                                   : build
                                         .insert(
                                             "aten::sym_size.int", {value, c10::IValue(static_cast<int64_t>(d))},
                                             {.types = {NumberType{NumberKind::Int, symbol}}})
                                         ->output();
      });
    }
  }
  if (!wanted.empty()) {
    return false;
  }
  build.set_origin(before->origin);
  for (const auto& [symbol, make] : defined) {
    build.define(symbol, make());
  }
  return true;
}

bool CallInliner::replaced_by_recordings(Node* node, const c10::KernelFunction* kernel) {
  if (!can_be_recorded(*node, values_) || !can_be_recorded(*node, other_values_)) {
    return false;
  }
  const auto one = record(*node, values_, kernel);
  const auto other = one ? record(*node, other_values_, kernel) : std::nullopt;
  if (!other || one->graph->size() != other->graph->size()) {
    return false;
  }
  // Translates all nodes before it changes the graph.
  const Rewriting rewriting(one->stand_ins, other->stand_ins);
  Mapping values;
  size_t next_input = 0;
  for (size_t i = 0; i < node->operand_count(); ++i) {
    if (node->operand(i)->is_tensor()) {
      values[one->graph->inputs()[next_input++]] = node->operand(i);
    }
  }
  struct NewNode {
    const Node* recorded;
    OutputTypes outputs;
  };
  std::vector<NewNode> nodes;
  const auto* twin = other->graph->first();
  for (const auto* recorded = one->graph->first(); !recorded->is_return();
       recorded = recorded->next(), twin = twin->next()) {
    if (twin->is_return() || target_name(*recorded) != target_name(*twin) || recorded->op() == nullptr ||
        recorded->arguments().size() != twin->arguments().size() || recorded->output_lists() != twin->output_lists()) {
      return false;
    }
    NewNode added{recorded, {}};
    added.outputs.lists = recorded->output_lists();
    for (size_t i = 0; i < recorded->outputs().size(); ++i) {
      if (recorded->output(i) == nullptr || twin->output(i) == nullptr) {
        added.outputs.types.emplace_back();
        continue;
      }
      auto type = rewriting.type(*recorded->output(i), *twin->output(i));
      if (!type) {
        return false;
      }
      added.outputs.types.push_back(std::move(type));
      values[recorded->output(i)] = node->operand(0); // a placeholder until the node exists
    }
    for (size_t a = 0; a < recorded->arguments().size(); ++a) {
      if (!rewriting.argument(*recorded, recorded->arguments()[a], twin->arguments()[a], values)) {
        return false;
      }
    }
    nodes.push_back(std::move(added));
  }
  GraphBuilder build(*program_.graph, node);
  if (!define_symbols(build, node)) {
    return false;
  }
  twin = other->graph->first();
  for (auto& [recorded, outputs] : nodes) {
    std::vector<GraphBuilder::Argument> arguments;
    for (size_t a = 0; a < recorded->arguments().size(); ++a) {
      arguments.push_back(*rewriting.argument(*recorded, recorded->arguments()[a], twin->arguments()[a], values));
    }
    auto* added = build.insert(target_name(*recorded), arguments, std::move(outputs));
    for (size_t i = 0; i < recorded->outputs().size(); ++i) {
      if (recorded->output(i) != nullptr) {
        values[recorded->output(i)] = added->output(i);
      }
    }
    twin = twin->next();
  }
  size_t next = 0;
  for (auto* output : node->outputs()) {
    if (output != nullptr) {
      program_.graph->replace_all_uses(output, values.at(one->graph->return_node()->operand(next++)));
    }
  }
  program_.graph->erase(node);
  return true;
}

} // namespace weft::graph
