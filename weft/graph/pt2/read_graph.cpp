#include "weft/graph/pt2/read_graph.h"

#include "weft/graph/ir/module_stack.h"
#include "weft/graph/ir/node_error.h"
#include "weft/graph/pt2/find_operator.h"
#include "weft/graph/pt2/read_types.h"

#include <ATen/core/jit_type.h>

namespace weft::graph {

namespace {

constexpr std::string_view kOperators = "torch.ops.";
constexpr std::string_view kHigherOrder = "torch.ops.higher_order.";

bool begins_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

Origin read_origin(const JsonField& node) {
  Origin origin;
  if (const auto metadata = node.find("metadata")) {
    Metadata::Pairs pairs;
    for (const auto& [key, value] : metadata->object()) {
      pairs.emplace_back(key, metadata->value_of(value).text());
    }
    origin.metadata = std::move(pairs);
  }
  const auto stack = module_stack(origin);
  if (!stack.empty()) {
    std::tie(origin.module, origin.module_type) = stack.back();
  }
  return origin;
}

class NodeReader {
 public:
  NodeReader(const JsonField& graph, Program& program, NamedValues& values)
      : graph_(graph), program_(program), values_(values) {}

  void read(const JsonField& node) {
    const auto target = node["target"];
    const auto& text = target.text();
    if (begins_with(text, kHigherOrder)) {
      read_region(node);
    } else if (begins_with(text, kOperators)) {
      read_call(node);
    } else {
      read_function(node);
    }
  }

 private:
  void read_call(const JsonField& node) {
    const auto [op, renamed] = find_operator(node["target"], graph_["nodes"]);
    auto call = read_arguments(node["inputs"], op.schema(), values_, renamed);
    auto outputs = read_outputs(node["outputs"], op.schema());
    insert(node, op, std::move(call), std::move(outputs));
  }

  void read_function(const JsonField& node) {
    const auto target = node["target"];
    const auto* function = find_scalar_function(target.text());
    if (function == nullptr) {
      target.fail_not_implemented("the function " + target.text().substr(0, 200) + " is not supported");
    }
    auto call = read_numbers(node["inputs"], values_);
    node["inputs"].check(
        call.arguments.size() == function->arity, function->name, " takes ", function->arity, " numbers, but got ",
        call.arguments.size());
    for (const auto* operand : call.operands) {
      node["inputs"].check(
          !operand->is_tensor(), function->name, " takes numbers, but got the tensor ", operand->name());
    }
    Outputs outputs;
    const auto list = node["outputs"];
    list.check(list.size() == 1, function->name, " gives one number, but ", list.size(), " are named");
    add_output(list[0], outputs);
    insert(node, function, std::move(call), std::move(outputs));
  }

  struct Outputs {
    OutputTypes types;
    std::vector<std::optional<JsonField>> names;
  };

  Outputs read_outputs(const JsonField& list, const c10::FunctionSchema& schema) {
    const auto& returns = schema.returns();
    list.check(
        list.size() == returns.size(), schema.name(), " gives ", returns.size(), ", but ", list.size(), " are named");
    Outputs outputs;
    for (size_t i = 0; i < returns.size(); ++i) {
      const auto output = list[i];
      const auto [tag, value] = output.tagged();
      const bool is_list = returns[i].type()->kind() == c10::TypeKind::ListType;
      if (tag == "as_tensors") {
        output.check(is_list, "return ", i, " of ", schema.name(), " is no list, but tensors of one are named");
        for (size_t j = 0; j < value.size(); ++j) {
          add(named_tensor(value[j]), outputs);
        }
        outputs.types.lists.push_back(static_cast<int64_t>(value.size()));
      } else {
        if (is_list && tag != "as_none") {
          output.fail_not_implemented(c10::str("a list given by ", tag.substr(0, 80), " is not supported"));
        }
        add_output(output, outputs);
        outputs.types.lists.push_back(Node::kSingle);
      }
    }
    return outputs;
  }

  void add_output(const JsonField& output, Outputs& outputs) {
    if (output.tagged().tag == "as_none") {
      outputs.types.types.emplace_back(std::nullopt);
      outputs.types.names.emplace_back();
      outputs.names.emplace_back(std::nullopt);
    } else {
      add(read_named_type(graph_, output, program_), outputs);
    }
  }

  NamedType named_tensor(const JsonField& tensor) {
    const auto name = tensor["name"];
    const auto type = graph_["tensor_values"].find(name.text());
    name.check(type.has_value(), "tensor_values does not say what \"", name.text().substr(0, 80), "\" is");
    return {name, read_tensor_type(*type, program_.symbols)};
  }

  static void add(NamedType output, Outputs& outputs) {
    outputs.types.types.emplace_back(std::move(output.type));
    outputs.types.names.push_back(output.name.text());
    outputs.names.emplace_back(output.name);
  }

  void insert(const JsonField& node, Target target, ArgumentsAndOperands call, Outputs outputs) {
    auto* inserted = program_.graph->insert(
        nullptr, std::move(target), std::move(call.arguments), call.operands, std::move(outputs.types));
    inserted->origin = read_origin(node);
    for (size_t i = 0; i < outputs.names.size(); ++i) {
      if (outputs.names[i]) {
        values_.define(*outputs.names[i], inserted->output(i));
      }
    }
  }

  /// wrap_with_set_grad_enabled(False, <graph>, x, ...): the region's nodes are inlined, because the file does not
  /// decide what a backward keeps.
  void read_region(const JsonField& node) {
    const auto target = node["target"];
    if (target.text() != "torch.ops.higher_order.wrap_with_set_grad_enabled") {
      target.fail_not_implemented(
          "the higher-order operator " + target.text().substr(kOperators.size(), 200) +
          " is not supported. Of these, regions under torch.no_grad() are");
    }
    const auto inputs = node["inputs"];
    const auto [tag, region] = inputs[1]["arg"].tagged();
    inputs.check(tag == "as_graph", "a graph is required as second argument, but got ", tag.substr(0, 80));
    const auto graph = region["graph"];
    const auto parameters = graph["inputs"];
    parameters.check(
        parameters.size() + 2 == inputs.size(), "as many inputs as the region is called with are required, ",
        inputs.size() - 2, ", but got ", parameters.size());
    NamedValues inner;
    for (size_t i = 0; i < parameters.size(); ++i) {
      inner.define(name_of(parameters[i]), values_.find(name_of(inputs[i + 2]["arg"])));
    }
    read_nodes(graph, program_, inner);
    define_results(node["outputs"], graph["outputs"], inner);
  }

  static JsonField name_of(const JsonField& argument) {
    const auto [tag, value] = argument.tagged();
    if (tag == "as_tensor") {
      return value["name"];
    }
    if (tag != "as_sym_int" && tag != "as_sym_float" && tag != "as_sym_bool") {
      argument.fail_not_implemented(
          c10::str("a region takes and gives tensors and sizes, but ", tag.substr(0, 80), " is not supported"));
    }
    return value["as_name"];
  }

  void define_results(const JsonField& outer, const JsonField& results, const NamedValues& inner) {
    size_t count = 0;
    const auto define = [&](const JsonField& name) { values_.define(name, inner.find(name_of(results[count++]))); };
    for (size_t i = 0; i < outer.size(); ++i) {
      const auto [tag, value] = outer[i].tagged();
      if (tag == "as_none") {
        ++count;
      } else if (tag != "as_tensors") {
        define(name_of(outer[i]));
      } else {
        for (size_t j = 0; j < value.size(); ++j) {
          define(value[j]["name"]);
        }
      }
    }
    results.check(count == results.size(), "of ", results.size(), " results of a region ", count, " are named");
  }

  JsonField graph_;
  Program& program_;
  NamedValues& values_;
};

} // namespace

NamedType read_named_type(const JsonField& graph, const JsonField& argument, Program& program) {
  const auto [tag, value] = argument.tagged();
  const auto look_up = [&](const char* table, const JsonField& name) {
    const auto type = graph[table].find(name.text());
    name.check(type.has_value(), table, " does not say what \"", name.text().substr(0, 80), "\" is");
    return *type;
  };
  if (tag == "as_tensor") {
    const auto name = value["name"];
    return {name, read_tensor_type(look_up("tensor_values", name), program.symbols)};
  }
  const struct {
    const char* tag;
    const char* table;
    NumberKind kind;
  } kinds[] = {
      {"as_sym_int", "sym_int_values", NumberKind::Int},
      {"as_sym_float", "sym_float_values", NumberKind::Float},
      {"as_sym_bool", "sym_bool_values", NumberKind::Bool},
  };
  for (const auto& kind : kinds) {
    if (tag == kind.tag) {
      const auto name = value["as_name"];
      return {name, read_number_type(look_up(kind.table, name), kind.kind, program.symbols)};
    }
  }
  argument.fail_not_implemented(c10::str("a value given by ", tag.substr(0, 80), " is not supported"));
}

void read_nodes(const JsonField& graph, Program& program, NamedValues& values) {
  NodeReader reader(graph, program, values);
  const auto nodes = graph["nodes"];
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto node = nodes[i];
    try {
      reader.read(node);
    } catch (const std::exception& error) {
      if (!is_defect(error)) {
        throw;
      }
      TORCH_CHECK(false, defect_text(node.place(), error));
    }
  }
}

} // namespace weft::graph
