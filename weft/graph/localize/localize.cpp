#include "weft/graph/localize/localize.h"

#include "weft/core/shard_math.h"
#include "weft/graph/analysis/fused_node.h"
#include "weft/graph/analysis/trial_values.h"
#include "weft/graph/ir/node_error.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/value_table.h"
#include "weft/graph/localize/global_values.h"
#include "weft/graph/localize/localize_lookup.h"
#include "weft/graph/localize/localize_step.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace weft::graph {

namespace {

MeshPlace with_stand_ins(MeshPlace place, const TrialValues& values) {
  place.stand_ins = values.stand_ins();
  return place;
}

class Localizer {
 public:
  Localizer(const Program& program, int64_t rank, const LocalizeOptions& options)
      : program_(program),
        mesh_(*program.mesh),
        trial_values_(program),
        place_(with_stand_ins(place_in(mesh_, rank), trial_values_)),
        group_names_(options.group_names),
        defers_copies_(options.defers_copies),
        build_(*result_.graph),
        steps_(build_, mesh_, place_, options.group_names),
        values_(*program.graph) {}

  Program run() {
    add_inputs();
    for (const auto* node = program_.graph->first(); node != nullptr; node = node->next()) {
      build_.set_origin(node->origin);
      for_node(*node, [&] { add(*node); });
    }
    result_.outputs = program_.outputs;
    result_.symbols = program_.symbols;
    result_.mesh = mesh_;
    result_.calling_convention = program_.calling_convention;
    return std::move(result_);
  }

 private:
  void add_inputs() {
    result_.inputs.reserve(program_.inputs.size());
    for (auto input : program_.inputs) {
      if (input.value != nullptr) {
        auto* local = result_.graph->add_input(input.value->name(), local_type(*input.value, place_));
        values_[input.value] = local;
        input.value = local;
      }
      result_.inputs.push_back(std::move(input));
    }
    add_tensors();
    define_symbols();
  }

  /// Adds the weights in the order of the map, so that inserting each one at the end takes no search.
  void add_tensors() {
    std::unordered_map<std::string_view, const Value*> values;
    values.reserve(program_.inputs.size());
    for (const auto& input : program_.inputs) {
      if (input.value != nullptr && !input.target.empty()) {
        values[input.target] = input.value;
      }
    }
    for (const auto& [name, tensor] : program_.tensors) {
      const auto found = values.find(name);
      if (found != values.end()) {
        result_.tensors.emplace_hint(result_.tensors.end(), name, weight(tensor, *found->second->layout));
      }
    }
  }

  at::Tensor weight(const at::Tensor& global, const Layout& layout) const {
    if (!defers_copies_ || local_is_view(global.sizes(), layout, place_)) {
      return local_value(global, layout, place_);
    }
    return local_value(at::empty(global.sizes(), global.options().device(at::kMeta)), layout, place_).contiguous();
  }

  /// Finds for each symbol an input dim that has this size and is not sharded; the first one where there are several.
  void define_symbols() {
    for (const auto& input : program_.inputs) {
      if (input.value == nullptr || input.kind != InputKind::User) {
        continue;
      }
      if (!input.value->is_tensor()) {
        define(std::get<NumberType>(input.value->type).expression, values_[input.value]);
        continue;
      }
      const auto& sizes = input.value->tensor().sizes;
      for (size_t d = 0; d < sizes.size(); ++d) {
        const auto dim = static_cast<int64_t>(d);
        if (sizes[d].is_symbol() && defined_.count(sizes[d].name()) == 0 &&
            input.value->layout->shard_order(dim).empty()) {
          symbol_sources_[sizes[d].name()] = {values_[input.value], dim};
        }
      }
    }
  }

  void define(const std::string& symbol, Value* value) {
    if (!symbol.empty() && defined_.insert(symbol).second) {
      build_.define(symbol, value);
    }
  }

  /// Inserts the nodes that compute the symbols of a size, when the first size that needs them is used.
  const Size& ready(const Size& size) {
    for (const auto& symbol : size.symbols()) {
      const auto source = symbol_sources_.find(symbol);
      if (defined_.count(symbol) == 0 && source != symbol_sources_.end()) {
        const auto& [input, dim] = source->second;
        auto* node = build_.insert(
            "aten::sym_size.int", {input, c10::IValue(dim)}, {.types = {NumberType{NumberKind::Int, symbol}}});
        define(symbol, node->output());
      }
    }
    return size;
  }

  void add(const Node& node) {
    if (node.is_return()) {
      std::vector<Value*> values;
      for (size_t i = 0; i < node.operand_count(); ++i) {
        values.push_back(local(node.operand(i)));
      }
      result_.graph->set_return(values);
      return;
    }
    if (const auto* step = node.step()) {
      const auto& sizes = node.operand(0)->tensor().sizes;
      for (const auto& size : sizes) {
        ready(size);
      }
      auto* head = repeated_head(node, *step);
      values_[node.output()] = head != nullptr ? head : steps_.lower(*step, local(node.operand(0)), sizes);
      return;
    }
    if (is_size_query(node) && replaces_size(node)) {
      return;
    }
    add_call(node);
  }

  /// For a slice of repeated heads that leaves each rank one head: that head of the source, without the repetition.
  /// nullptr for any other step.
  Value* repeated_head(const Node& node, const Step& step) {
    const auto* producer = node.operand(0)->producer();
    if (step.kind != StepKind::Slice || producer == nullptr || !calls(*producer, "aten::repeat_interleave.self_int") ||
        !producer->arguments()[1].is_constant() || !producer->arguments()[2].is_constant() ||
        !producer->arguments()[2].constant().isInt()) {
      return nullptr;
    }
    const auto times = producer->arguments()[1].constant().toInt();
    const auto dim = producer->arguments()[2].constant().toInt();
    const auto& global_sizes = node.operand(0)->tensor().sizes;
    const auto sharding_dims = step.after.shard_order(dim);
    if (sharding_dims.size() != 1 || MeshDims{sharding_dims[0]} != step.mesh_dims) {
      return nullptr;
    }
    const auto m = sharding_dims[0];
    if (!step.after[m].is_plain_shard() || !step.before[m].is_replicate() || !global_sizes[dim].is_number() ||
        global_sizes[dim].number() != place_.shape[m]) {
      return nullptr;
    }
    const auto head = place_.coordinate[m] / times;
    auto* source = local(producer->operand(0));
    auto sizes = source->tensor().sizes;
    sizes[dim] = 1;
    const auto type = contiguous_type(source->tensor().dtype, sizes, source->tensor().device);
    return build_.call(
        "aten::slice.Tensor", {source, c10::IValue(dim), c10::IValue(head), c10::IValue(head + 1)}, type);
  }

  Value* local(const Value* value) {
    auto*& known = values_[value];
    if (known == nullptr) {
      known = build_.number(ready(sizes_.at(value)));
    }
    return known;
  }

  /// Replaces a query for the size of a sharded dim, since it must give the global size and not the local one.
  bool replaces_size(const Node& node) {
    const auto* tensor = node.operand(0);
    const auto& layout = *tensor->layout;
    if (!layout.has_shard()) {
      return false;
    }
    const auto& expression = std::get<NumberType>(node.output()->type).expression;
    TORCH_CHECK_NOT_IMPLEMENTED(
        !expression.empty(), "[localize] %", node.output()->name(), " asks for the size of %", tensor->name(),
        ", which is sharded, but the program has no expression of this size.");
    sizes_[node.output()] = Size::parse(expression);
    return true;
  }

  void add_call(const Node& node) {
    Operands operands;
    for (size_t i = 0; i < node.operand_count(); ++i) {
      operands.values.push_back(sizes_.count(node.operand(i)) != 0 ? nullptr : local(node.operand(i)));
    }
    const auto* lookup = node.sharding != nullptr && node.sharding->lookup ? &*node.sharding->lookup : nullptr;
    Value* foreign = nullptr;
    if (lookup != nullptr) {
      const auto size = looked_up_size(node, *lookup, trial_values_);
      foreign = take_own_positions(build_, *lookup, ready(size), place_, operands.values);
    }
    Arguments arguments;
    arguments.reserve(node.arguments().size());
    for (size_t a = 0; a < node.arguments().size(); ++a) {
      const auto* sizes = size_argument(node, a);
      arguments.push_back(
          sizes != nullptr ? local_size_argument(node, *sizes, operands) : copied(node, node.arguments()[a], operands));
    }
    OutputTypes outputs;
    outputs.lists = node.output_lists();
    for (const auto* output : node.outputs()) {
      outputs.types.push_back(output == nullptr ? std::nullopt : std::optional<Type>(local_type(*output, place_)));
      outputs.names.push_back(output == nullptr ? "" : output->name());
    }
    auto* added =
        result_.graph->insert(nullptr, node.target(), std::move(arguments), operands.used, std::move(outputs));
    added->origin = node.origin;
    name_group(*added);
    for (size_t i = 0; i < node.outputs().size(); ++i) {
      if (node.output(i) == nullptr) {
        continue;
      }
      values_[node.output(i)] = added->output(i);
      if (!node.output(i)->is_tensor()) {
        const auto& number = std::get<NumberType>(node.output(i)->type);
        if (number.kind == NumberKind::Int) {
          define(number.expression, added->output(i));
        }
      }
    }
    if (foreign != nullptr && lookup->masks_output) {
      values_[node.output()] = zero_where(build_, added->output(), foreign);
    }
  }

  /// Gives a collective that overlaps matmuls the same name of its group as redistributions use.
  void name_group(Node& added) const {
    if (!is_fused_operator(added)) {
      return;
    }
    const auto argument = group_argument(added);
    const auto named = group_names_.find(added.arguments()[argument].constant().toStringRef());
    if (named != group_names_.end()) {
      added.set_constant(argument, named->second);
    }
  }

  /// The local operands of a node that is copied, and those that its copy uses.
  struct Operands {
    std::vector<Value*> values; // nullptr for a size that replaces_size computes
    std::vector<Value*> used;

    Argument use(Value* value) {
      used.push_back(value);
      return Argument::operand(used.size() - 1);
    }
  };

  Argument size(const Size& size, Operands& operands) {
    return size.is_number() ? Argument(c10::IValue(size.number())) : operands.use(build_.number(ready(size)));
  }

  Argument copied(const Node& node, const Argument& argument, Operands& operands) {
    if (argument.is_operand()) {
      auto* value = operands.values[argument.operand()];
      return value != nullptr ? operands.use(value) : size(sizes_.at(node.operand(argument.operand())), operands);
    }
    if (!argument.is_list()) {
      return argument;
    }
    std::vector<Argument> elements;
    for (const auto& element : argument.elements()) {
      elements.push_back(copied(node, element, operands));
    }
    return list(std::move(elements));
  }

  /// A list that has only numbers, or nothing, becomes a constant.
  static Argument list(std::vector<Argument> elements) {
    std::vector<int64_t> numbers;
    for (const auto& element : elements) {
      if (element.is_constant() && element.constant().isInt()) {
        numbers.push_back(element.constant().toInt());
      }
    }
    return numbers.size() == elements.size() ? Argument(c10::IValue(numbers)) : Argument::list(std::move(elements));
  }

  const CallSharding::SizeArgument* size_argument(const Node& node, size_t argument) const {
    if (node.sharding == nullptr) {
      return nullptr;
    }
    for (const auto& each : node.sharding->size_arguments) {
      if (each.argument == argument) {
        return &each;
      }
    }
    return nullptr;
  }

  /// The local sizes for an argument that states global ones. Sizes of dims that are not sharded stay as written.
  Argument local_size_argument(const Node& node, const CallSharding::SizeArgument& stated, Operands& operands) {
    const auto& written = node.arguments()[stated.argument];
    const bool is_list = written.is_list() || (written.is_constant() && written.constant().isList());
    std::vector<Argument> elements;
    for (size_t d = 0; d < stated.sizes.size(); ++d) {
      const auto dim = static_cast<int64_t>(d);
      const auto element = element_of(written, d);
      const bool is_sharded = !stated.layout.shard_order(dim).empty();
      // A -1 is replaced too, since the operator cannot infer a size if the local tensor is empty.
      const bool is_inferred = element.is_constant() && element.constant().isInt() && element.constant().toInt() == -1;
      if (!is_sharded && !is_inferred) {
        elements.push_back(copied(node, element, operands));
        continue;
      }
      const auto global = element.is_operand() ? size_of(node.operand(element.operand()))
          : is_inferred                        ? inferred_size(node, d, stated.sizes[d])
                                               : Size(stated.sizes[d]);
      elements.push_back(size(local_size(global, dim, stated.layout, place_), operands));
    }
    return is_list ? list(std::move(elements)) : elements[0];
  }

  /// The size that a -1 stands for: the size of the output that has this trial value, which may be an expression of
  /// symbols.
  Size inferred_size(const Node& node, size_t d, int64_t stated) const {
    const auto& sizes = node.output()->tensor().sizes;
    const auto found =
        std::find_if(sizes.begin(), sizes.end(), [&](const Size& size) { return trial_values_.of(size) == stated; });
    TORCH_CHECK_NOT_IMPLEMENTED(
        found != sizes.end() || program_.symbols.empty(), "[localize] ", to_string(node), " leaves size ", d,
        " to be inferred, which its output does not have. Write the size out.");
    return found != sizes.end() ? *found : Size(stated);
  }

  static Argument element_of(const Argument& written, size_t d) {
    if (written.is_list()) {
      return written.elements()[d];
    }
    return written.is_constant() && written.constant().isList() ? Argument(written.constant().toListRef()[d]) : written;
  }

  /// The expression of symbols that a number is.
  Size size_of(const Value* number) const {
    const auto found = sizes_.find(number);
    return found != sizes_.end() ? found->second : Size::parse(std::get<NumberType>(number->type).expression);
  }

  const Program& program_;
  const DeviceMesh& mesh_;
  TrialValues trial_values_;
  MeshPlace place_;
  const std::map<std::string, std::string>& group_names_;
  bool defers_copies_;
  Program result_;
  GraphBuilder build_;
  StepLowering steps_;
  ValueTable<Value*> values_;
  std::unordered_map<const Value*, Size> sizes_; // numbers that replaces_size computes
  std::unordered_map<std::string, std::pair<Value*, int64_t>> symbol_sources_;
  std::unordered_set<std::string> defined_;
};

} // namespace

Program localize(const Program& program, int64_t rank, const LocalizeOptions& options) {
  TORCH_CHECK_VALUE(program.mesh, "[localize] a program that tensor_parallel made parallel is required.");
  return Localizer(program, rank, options).run();
}

} // namespace weft::graph
