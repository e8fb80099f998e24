#include "weft/graph/exec/prepare.h"

#include "weft/graph/analysis/memory_writes.h"
#include "weft/graph/exec/collective_call.h"
#include "weft/graph/exec/redistribution_call.h"
#include "weft/graph/ir/local_redistribution.h"
#include "weft/graph/ir/node_error.h"

#include <unordered_map>

namespace weft::graph {

namespace {

c10::TypePtr without_optional(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}

bool is_list_of(const c10::TypePtr& type, c10::TypeKind kind) {
  const auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->kind() == kind;
}

/// Converts a constant to the type that an operator takes: Python passes an int for a float, and one number for a list
/// of equal numbers.
c10::IValue as_argument(const c10::IValue& constant, const c10::Argument& argument) {
  const auto type = without_optional(argument.type());
  if (type->kind() == c10::TypeKind::FloatType && constant.isInt()) {
    return static_cast<double>(constant.toInt());
  }
  const auto count = argument.N().value_or(1);
  if (is_list_of(type, c10::TypeKind::IntType) && constant.isInt()) {
    return std::vector<int64_t>(count, constant.toInt());
  }
  if (is_list_of(type, c10::TypeKind::FloatType) && constant.isDouble()) {
    return std::vector<double>(count, constant.toDouble());
  }
  return constant;
}

template <class Fn>
void for_each_operand(const Argument& argument, const Fn& fn) {
  if (argument.is_operand()) {
    fn(argument.operand());
  }
  for (const auto& element : argument.elements()) {
    for_each_operand(element, fn);
  }
}

/// A kernel may choose other strides for a local tensor than for the global one (attention does), so that a view of the
/// program fails. A reshape replaces the view if no node writes to its memory, because a copy is equivalent then.
const c10::OperatorHandle& operator_for(const Node& node, const MemoryWrites& writes) {
  static const auto reshape = c10::Dispatcher::singleton().findSchemaOrThrow("aten::reshape", "");
  return calls(node, "aten::view") && !writes.is_written(node.output()) ? reshape : *node.op();
}

class Preparer {
 public:
  Preparer(const Program& program, const DeviceMesh& mesh)
      : program_(program), mesh_(mesh), writes_(*program.graph, Forwarding::Known) {
    TORCH_CHECK_VALUE(
        program.graph->return_node() != nullptr, "[Executor] a graph that ends with a return is required.");
    const auto* last = program.graph->return_node();
    for (const auto* node = program.graph->first(); node != last; node = node->next()) {
      for (const auto& argument : node->arguments()) {
        for_each_operand(argument, [&](size_t operand) { ++uses_left_[node->operand(operand)]; });
      }
    }
    for (const auto& output : program.outputs) {
      if (!output.constant) {
        ++uses_left_[last->operand(output.operand)];
      }
    }
  }

  PreparedProgram run() {
    add_inputs();
    const auto* last = program_.graph->return_node();
    for (const auto* node = program_.graph->first(); node != last; node = node->next()) {
      for_node(*node, [&] { add(*node); });
    }
    wait_for_operands(*last);
    for (const auto& output : program_.outputs) {
      prepared_.results.push_back(
          output.constant ? Source::constant_of(*output.constant) : use(last->operand(output.operand)));
    }
    return std::move(prepared_);
  }

 private:
  void add_inputs() {
    for (const auto& input : program_.inputs) {
      const bool is_read = input.value != nullptr && uses_left_.count(input.value) > 0;
      prepared_.inputs.push_back(is_read ? slot_of(input.value) : OutputSlots::kUnused);
      if (is_read && input.kind != InputKind::User) {
        ++uses_left_[input.value]; // the following runs use it too
      }
    }
  }

  uint32_t slot_of(const Value* value) {
    const auto [found, is_new] = slots_.emplace(value, static_cast<uint32_t>(prepared_.slot_count));
    prepared_.slot_count += is_new ? 1 : 0;
    return found->second;
  }

  Source use(const Value* value) {
    const bool is_last = --uses_left_[value] == 0;
    return Source::slot_of(slot_of(value), is_last);
  }

  OutputSlots outputs_of(const Node& node) {
    OutputSlots outputs{{}, node.output_lists()};
    for (const auto* value : node.outputs()) {
      const bool is_read = value != nullptr && uses_left_.count(value) > 0;
      outputs.slots.push_back(is_read ? slot_of(value) : OutputSlots::kUnused);
    }
    return outputs;
  }

  Source list_source(const Node& node, const Argument& argument, const c10::Argument& formal) {
    const auto type = without_optional(formal.type())->cast<c10::ListType>();
    TORCH_CHECK_TYPE(
        type != nullptr, "[Executor] argument '", formal.name(), "' of ", target_name(node), " must be a ",
        formal.type()->str(), ", but got a list.");
    ListSource list{type->getElementType(), {}};
    for (const auto& element : argument.elements()) {
      list.elements.push_back(
          element.is_operand() ? number_or_tensor(node, element, list.element_type)
                               : Source::constant_of(element.is_constant() ? element.constant() : c10::IValue()));
    }
    Source source;
    source.kind = Source::Kind::List;
    source.list = std::make_shared<const ListSource>(std::move(list));
    return source;
  }

  Source number_or_tensor(const Node& node, const Argument& argument, const c10::TypePtr& type) {
    const auto* value = node.operand(argument.operand());
    auto source = use(value);
    const auto* number = std::get_if<NumberType>(&value->type);
    if (number != nullptr && type->kind() == c10::TypeKind::FloatType && number->kind != NumberKind::Float) {
      source.kind = Source::Kind::AsDouble;
    } else if (number != nullptr && type->kind() == c10::TypeKind::TensorType) {
      source.kind = Source::Kind::AsTensor;
    }
    return source;
  }

  Source argument_source(const Node& node, const Argument& argument, const c10::Argument& formal) {
    switch (argument.kind()) {
      case Argument::Kind::Constant:
        return Source::constant_of(as_argument(argument.constant(), formal));
      case Argument::Kind::Operand:
        return number_or_tensor(node, argument, without_optional(formal.type()));
      case Argument::Kind::List:
        return list_source(node, argument, formal);
      case Argument::Kind::Absent:
        break;
    }
    TORCH_CHECK_VALUE(
        formal.default_value().has_value(), "[Executor] argument '", formal.name(), "' of ", target_name(node),
        " is required, but got none.");
    return Source::constant_of(*formal.default_value());
  }

  std::vector<Source> argument_sources(const Node& node) {
    const auto& formals = node.op()->schema().arguments();
    TORCH_CHECK_VALUE(
        node.arguments().size() == formals.size(), "[Executor] ", target_name(node), " must have ", formals.size(),
        " arguments, but got ", node.arguments().size(), ".");
    std::vector<Source> sources;
    for (size_t i = 0; i < formals.size(); ++i) {
      sources.push_back(argument_source(node, node.arguments()[i], formals[i]));
    }
    return sources;
  }

  void add_step(const Node& node, std::unique_ptr<Instruction> instruction) {
    prepared_.steps.push_back({std::move(instruction), &node});
  }

  /// Waits for a transfer before its first reader.
  void wait_for_operands(const Node& node) {
    for (size_t i = 0; i < node.operand_count(); ++i) {
      if (const auto found = on_the_way_.find(node.operand(i)); found != on_the_way_.end()) {
        const auto* value = node.operand(i);
        add_step(
            node,
            is_local_redistribution(*value->producer()) ? make_redistribution_wait(found->second, slot_of(value))
                                                        : make_transfer_wait(found->second));
        on_the_way_.erase(found);
      }
    }
  }

  void add(const Node& node) {
    TORCH_CHECK_VALUE(
        node.step() == nullptr, "[Executor] the program of one rank is required, but got one for all ranks, with ",
        target_name(node), " in it. Make it a rank's with localize(program, rank).");
    wait_for_operands(node);
    if (node.op() == nullptr) {
      add_function(node);
    } else if (is_local_redistribution(node)) {
      add_redistribution(node);
    } else if (is_collective(*node.op())) {
      add_collective(node);
    } else {
      add_call(node);
    }
  }

  void add_function(const Node& node) {
    std::vector<Source> sources;
    for (const auto& argument : node.arguments()) {
      TORCH_CHECK_VALUE(
          argument.is_operand() || argument.is_constant(), "[Executor] ", target_name(node), " is of numbers alone.");
      sources.push_back(
          argument.is_operand() ? use(node.operand(argument.operand())) : Source::constant_of(argument.constant()));
    }
    add_step(node, make_function_call(*node.function(), std::move(sources), outputs_of(node)));
  }

  void add_call(const Node& node) {
    auto sources = argument_sources(node);
    auto outputs = outputs_of(node);
    if (names_group(*node.op())) {
      check_has_mesh(node);
      add_step(node, make_group_call(node, std::move(sources), std::move(outputs), mesh_));
      return;
    }
    auto read = make_size_read(*node.op(), sources, outputs);
    add_step(
        node,
        read ? std::move(read)
             : make_operator_call(
                   operator_for(node, writes_), written_arguments(node), std::move(sources), std::move(outputs)));
  }

  void check_has_mesh(const Node& node) const {
    TORCH_CHECK_VALUE(
        mesh_.defined(), "[Executor] a program with collectives needs a mesh, but got none for ", target_name(node),
        ". Set the program's mesh.");
  }

  void add_redistribution(const Node& node) {
    check_has_mesh(node);
    const auto transfer = static_cast<uint32_t>(prepared_.transfer_count++);
    add_step(node, make_redistribution_start(node, argument_sources(node).at(0), transfer, mesh_));
    on_the_way_[node.output()] = transfer;
  }

  void add_collective(const Node& node) {
    auto sources = argument_sources(node);
    auto outputs = outputs_of(node);
    if (is_wait(*node.op())) {
      add_step(node, make_forward(sources.at(0), outputs.slots.at(0)));
      return;
    }
    check_has_mesh(node);
    const auto first = static_cast<uint32_t>(prepared_.transfer_count);
    for (const auto* value : node.outputs()) {
      on_the_way_[value] = static_cast<uint32_t>(prepared_.transfer_count++);
    }
    add_step(node, make_collective_start(node, std::move(sources), std::move(outputs), first, mesh_));
  }

  const Program& program_;
  const DeviceMesh& mesh_;
  MemoryWrites writes_;
  PreparedProgram prepared_;
  std::unordered_map<const Value*, uint32_t> slots_;
  std::unordered_map<const Value*, size_t> uses_left_;
  std::unordered_map<const Value*, uint32_t> on_the_way_; // the transfers of values that have not arrived
};

} // namespace

PreparedProgram prepare(const Program& program, const DeviceMesh& mesh) {
  return Preparer(program, mesh).run();
}

bool has_collectives(const Graph& graph) {
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (node->op() != nullptr &&
        (is_collective(*node->op()) || names_group(*node->op()) || is_local_redistribution(*node))) {
      return true;
    }
  }
  return false;
}

} // namespace weft::graph
