#include "weft/graph/ir/verify.h"

#include "weft/graph/ir/constant_text.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/schema_match.h"
#include "weft/graph/ir/type_text.h"

#include <algorithm>
#include <set>

namespace weft::graph {

namespace {

#define WEFT_VERIFY(condition, node, ...) \
  TORCH_CHECK_VALUE(condition, "[verify] ", __VA_ARGS__, ", in: ", to_string(node), ".")

void check_operands(const Node& node) {
  std::vector<bool> is_named(node.operand_count());
  const auto check = [&](const Argument& argument) {
    if (argument.is_operand()) {
      // This error names only the operator because the node cannot be printed.
      TORCH_CHECK_VALUE(
          argument.operand() < is_named.size(), "[verify] an argument is one of the node's ", is_named.size(),
          " operands, but got operand ", argument.operand(), ", in a call of ", target_name(node), ".");
      is_named[argument.operand()] = true;
    }
  };
  for (const auto& argument : node.arguments()) {
    check(argument);
    std::for_each(argument.elements().begin(), argument.elements().end(), check);
  }
  const auto unnamed = std::find(is_named.begin(), is_named.end(), false);
  WEFT_VERIFY(
      unnamed == is_named.end(), node, "every operand is part of an argument, but operand ", unnamed - is_named.begin(),
      " is of none");
}

void check_operator(const Node& node) {
  const auto& schema = node.op()->schema();
  const auto& arguments = node.arguments();
  WEFT_VERIFY(
      arguments.size() == schema.arguments().size(), node, schema.name(), " has ", schema.arguments().size(),
      " arguments, but got ", arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& known = schema.arguments()[i];
    if (arguments[i].is_absent()) {
      WEFT_VERIFY(
          known.default_value().has_value(), node, "the argument ", known.name(), " has no default, but is left out");
    } else {
      WEFT_VERIFY(
          matches(node, arguments[i], *known.real_type()), node, "the argument ", known.name(), " is of type ",
          known.real_type()->str(), ", but got another");
    }
  }
  const auto& lists = node.output_lists();
  WEFT_VERIFY(
      lists.size() == schema.returns().size(), node, schema.name(), " returns ", schema.returns().size(),
      " values, but got ", lists.size());
  size_t at = 0;
  for (size_t i = 0; i < lists.size(); ++i) {
    const auto& type = without_none(*schema.returns()[i].real_type());
    const bool is_list = type.kind() == c10::TypeKind::ListType;
    // An operator may declare a return of any type; its output then states the type.
    const bool is_any = type.kind() == c10::TypeKind::AnyType;
    WEFT_VERIFY(
        is_any || is_list == (lists[i] != Node::kSingle), node, "return ", i, " is ", is_list ? "a list" : "no list");
    const auto element = is_list ? element_type(type) : schema.returns()[i].real_type();
    for (int64_t j = 0; j < (lists[i] == Node::kSingle ? 1 : lists[i]); ++j, ++at) {
      const auto* output = node.output(at);
      WEFT_VERIFY(
          output == nullptr || matches(output->type, *element), node, "return ", i, " is of type ", element->str(),
          ", but got ", to_string(output->type));
    }
  }
}

void check_function(const Node& node) {
  const auto& function = *node.function();
  WEFT_VERIFY(
      node.arguments().size() == function.arity, node, function.name, " has ", function.arity, " arguments, but got ",
      node.arguments().size());
  for (const auto& argument : node.arguments()) {
    WEFT_VERIFY(
        !argument.is_list() && matches(node, argument, *c10::NumberType::get()), node, function.name,
        " is a function of numbers, but got another argument");
  }
  WEFT_VERIFY(
      node.outputs().size() == 1 && node.output() != nullptr && !node.output()->is_tensor(), node, function.name,
      " gives one number");
}

void check_step(const Node& node) {
  const auto& step = *node.step();
  WEFT_VERIFY(
      node.operand_count() == 1 && node.arguments().size() == 1 && node.outputs().size() == 1 &&
          node.output() != nullptr,
      node, "a step has one operand and one output");
  const auto& operand = *node.operand(0);
  const auto& output = *node.output();
  WEFT_VERIFY(
      operand.is_tensor() && output.is_tensor() && operand.tensor().sizes == output.tensor().sizes &&
          operand.tensor().dtype == output.tensor().dtype,
      node, "a step keeps the type of its operand, ", to_string(operand.type));
  WEFT_VERIFY(
      operand.layout == step.before, node, "a step begins with its operand's layout, ",
      operand.layout ? operand.layout->to_string() : "none");
  WEFT_VERIFY(output.layout == step.after, node, "a step ends with its output's layout");
  WEFT_VERIFY(
      std::is_sorted(step.mesh_dims.begin(), step.mesh_dims.end()) &&
          std::all_of(
              step.mesh_dims.begin(), step.mesh_dims.end(),
              [&](int64_t m) { return m >= 0 && m < step.before.ndim(); }),
      node, "a step is over mesh dims of its layouts, ascending");
}

void check_sharding(const Node& node) {
  if (node.sharding == nullptr) {
    return;
  }
  // These errors name only the operator because a node with such a sharding cannot be printed.
  const auto& sharding = *node.sharding;
  const auto name = target_name(node);
  TORCH_CHECK_VALUE(node.op() != nullptr, "[verify] only an operator is sharded, but got one of ", name, ".");
  for (const auto& size : sharding.size_arguments) {
    TORCH_CHECK_VALUE(
        size.argument < node.arguments().size(), "[verify] sizes are of an argument, but got argument ", size.argument,
        ", in a call of ", name, ".");
  }
  const auto& lookup = sharding.lookup;
  TORCH_CHECK_VALUE(
      !lookup ||
          (lookup->operand < node.operand_count() && (!lookup->masks_output || lookup->table < node.operand_count())),
      "[verify] a lookup is of operands that the node has, in a call of ", name, ".");
}

void check_node(const Node& node) {
  check_sharding(node);
  check_operands(node);
  if (node.op() != nullptr) {
    check_operator(node);
  } else if (node.function() != nullptr) {
    check_function(node);
  } else if (node.step() != nullptr) {
    check_step(node);
  } else {
    WEFT_VERIFY(node.outputs().empty() && node.next() == nullptr, node, "the return is the last node");
  }
}

/// Visits values in order and checks each of them by itself.
class ValueCheck {
 public:
  void define(const Value& value, const Node* producer) {
    const auto check = [&](bool condition, const auto&... text) {
      TORCH_CHECK_VALUE(condition, "[verify] ", text..., ", in: ", describe(value), ".");
    };
    check(value.producer() == producer, "a value knows the node that makes it");
    check(names_.insert(value.name()).second, "a name is of one value");
    check(defined_.insert(&value).second, "a value is made once");
    for (const auto& use : value.uses()) {
      check(
          use.operand < use.node->operand_count() && use.node->operand(use.operand) == &value,
          "a value knows the operands that it is");
    }
    uses_ += value.uses().size();
    if (value.is_tensor()) {
      check(value.tensor().sizes.size() == value.tensor().strides.size(), "a tensor has a stride per dim");
      check(std::none_of(value.tensor().sizes.begin(), value.tensor().sizes.end(), is_negative), "no size is negative");
    }
    if (value.layout) {
      check(value.is_tensor(), "only a tensor has a layout");
      check(is_normalized(*value.layout, value.tensor().dim()), "a layout shards dims that the tensor has");
      layout_ndim_ = layout_ndim_ < 0 ? value.layout->ndim() : layout_ndim_;
      check(value.layout->ndim() == layout_ndim_, "all layouts are of one mesh");
    }
  }

  void use(const Node& node) {
    for (size_t i = 0; i < node.operand_count(); ++i) {
      WEFT_VERIFY(
          defined_.count(node.operand(i)) > 0, node, "a value is made before it is used, but %",
          node.operand(i)->name(), " is not");
    }
    operands_ += node.operand_count();
  }

  /// Every use was checked to be an operand that is the value. Equal numbers thus mean that every operand has its use.
  void finish() const {
    TORCH_CHECK_VALUE(
        uses_ == operands_, "[verify] every operand is a use of its value, but there are ", operands_, " operands and ",
        uses_, " uses.");
  }

 private:
  static std::string describe(const Value& value) {
    return value.producer() != nullptr ? to_string(*value.producer()) : "input %" + value.name();
  }

  static bool is_negative(const Size& size) {
    return size.is_number() && size.number() < 0;
  }

  static bool is_normalized(const Layout& layout, int64_t rank) {
    const auto& placements = layout.placements();
    return std::all_of(placements.begin(), placements.end(), [rank](const Placement& placement) {
      return !placement.is_shard() || (placement.dim() >= 0 && placement.dim() < rank);
    });
  }

  std::unordered_set<std::string_view> names_;
  std::unordered_set<const Value*> defined_;
  size_t uses_ = 0;
  size_t operands_ = 0;
  int64_t layout_ndim_ = -1;
};

void check_inputs(const Program& program) {
  const auto& values = program.graph->inputs();
  size_t at = 0;
  std::set<std::pair<InputKind, std::string>> targets;
  for (const auto& input : program.inputs) {
    TORCH_CHECK_VALUE(
        !input.constant || (input.kind == InputKind::User && input.value == nullptr),
        "[verify] only a user's input is a constant, but got one of \"", input.target, "\".");
    if (!input.constant) {
      TORCH_CHECK_VALUE(
          at < values.size() && input.value == values[at],
          "[verify] the program's inputs are the graph's, in order, but "
          "input ",
          at, " is not.");
      ++at;
    }
    TORCH_CHECK_VALUE(
        input.kind == InputKind::User || (!input.target.empty() && targets.emplace(input.kind, input.target).second),
        "[verify] a parameter, a buffer or a constant has a name of its own, but got \"", input.target, "\".");
  }
  TORCH_CHECK_VALUE(
      at == values.size(), "[verify] every input of the graph is one of the program, but the graph has ", values.size(),
      " and the program ", at, ".");
}

/// For every kind of mutation, the names of the inputs that it may refer to.
std::set<std::pair<OutputKind, std::string>> mutable_inputs(const Program& program) {
  std::set<std::pair<OutputKind, std::string>> names;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::Buffer) {
      names.emplace(OutputKind::BufferMutation, input.target);
    } else if (input.kind == InputKind::Parameter) {
      names.emplace(OutputKind::ParameterMutation, input.target);
    } else if (input.kind == InputKind::User && input.value != nullptr) {
      names.emplace(OutputKind::InputMutation, input.value->name());
    }
  }
  return names;
}

void check_outputs(const Program& program) {
  const auto* result = program.graph->return_node();
  const auto inputs = mutable_inputs(program);
  std::vector<bool> is_output(result->operand_count());
  for (const auto& output : program.outputs) {
    if (!output.constant) {
      TORCH_CHECK_VALUE(
          output.operand < is_output.size(), "[verify] an output is one of the return's ", is_output.size(),
          " operands, but got operand ", output.operand, ".");
      is_output[output.operand] = true;
    }
    TORCH_CHECK_VALUE(
        output.kind == OutputKind::User || inputs.count({output.kind, output.target}) > 0,
        "[verify] a mutation is of an input, but got \"", output.target, "\", which is none of its kind.");
  }
  const auto unnamed = std::find(is_output.begin(), is_output.end(), false);
  TORCH_CHECK_VALUE(
      unnamed == is_output.end(), "[verify] what the graph returns is an output of the program, but operand ",
      unnamed - is_output.begin(), " is none.");
}

/// A number as a size of the program's symbols; nothing if it is not known or no size, since files write numbers in
/// many forms.
std::optional<Size> size_of(const NumberType& number) {
  if (number.kind != NumberKind::Int || number.expression.empty()) {
    return std::nullopt;
  }
  try {
    return Size::parse(number.expression);
  } catch (const c10::ValueError&) {
    return std::nullopt;
  }
}

/// Checks the symbols of sizes and the mesh of layouts, which a graph without its program does not know.
void check_in_program(const Program& program, const Value& value) {
  const auto check_sizes = [&](const Sizes& sizes) {
    for (const auto& size : sizes) {
      for (const auto& symbol : size.is_number() ? std::vector<std::string>() : size.symbols()) {
        TORCH_CHECK_VALUE(
            program.symbols.count(symbol) > 0, "[verify] the program declares its symbols, but not ", symbol, ", in %",
            value.name(), ": ", to_string(value.type), ".");
      }
    }
  };
  if (value.is_tensor()) {
    check_sizes(value.tensor().sizes);
    check_sizes(value.tensor().strides);
  } else if (const auto size = size_of(std::get<NumberType>(value.type))) {
    check_sizes({*size});
  }
  TORCH_CHECK_VALUE(
      !value.layout || (program.mesh && value.layout->ndim() == program.mesh->ndim()),
      "[verify] a layout has a placement per dim of the program's mesh, ",
      program.mesh ? program.mesh->to_string() : "none", ", but got ", value.layout->to_string(), ", in %",
      value.name(), ".");
}

} // namespace

void verify(const Graph& graph) {
  ValueCheck values;
  for (const auto* input : graph.inputs()) {
    values.define(*input, nullptr);
  }
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    values.use(*node);
    check_node(*node);
    for (const auto* output : node->outputs()) {
      if (output != nullptr) {
        values.define(*output, node);
      }
    }
  }
  values.finish();
  TORCH_CHECK_VALUE(
      graph.return_node() != nullptr && graph.return_node()->next() == nullptr,
      "[verify] a graph ends with a return, but got none.");
}

void verify(const Program& program) {
  verify(*program.graph);
  check_inputs(program);
  check_outputs(program);
  for (const auto* input : program.graph->inputs()) {
    check_in_program(program, *input);
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    for (const auto* output : node->outputs()) {
      if (output != nullptr) {
        check_in_program(program, *output);
      }
    }
  }
}

} // namespace weft::graph
