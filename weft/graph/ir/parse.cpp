#include "weft/graph/ir/parse.h"

#include "weft/graph/ir/constant_text.h"
#include "weft/graph/ir/sharding_text.h"
#include "weft/graph/ir/type_text.h"

#include <algorithm>

namespace weft::graph {

namespace {

template <class Kind, size_t count>
Kind parse_kind(TextCursor& cursor, const std::array<std::string_view, count>& names) {
  const auto word = cursor.word_ahead();
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) {
    cursor.fail("one of " + c10::Join(" ", names));
  }
  cursor.skip(word.size());
  return static_cast<Kind>(found - names.begin());
}

std::optional<int64_t> parse_bound(TextCursor& cursor) {
  const bool is_open = cursor.accept("inf") || cursor.accept("-inf");
  return is_open ? std::nullopt : std::optional(cursor.integer());
}

class ProgramParser {
 public:
  Program run(std::string_view text) {
    size_t number = 0;
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      const auto where = "parse_program, line " + std::to_string(++number);
      TextCursor cursor(where, text.substr(0, end));
      if (!cursor.at_end() && !cursor.rest().starts_with('#')) {
        parse_line(cursor);
        cursor.expect_end();
      }
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    TORCH_CHECK_VALUE(has_begun_, "[parse_program] a program begins with the line \"program\", but got an empty text.");
    program_.graph->set_return(results_);
    return std::move(program_);
  }

 private:
  struct Definition {
    std::string name;
    std::optional<Type> type; // none for _
    std::optional<Layout> layout;
  };

  void parse_line(TextCursor& cursor) {
    if (!has_begun_) {
      if (!cursor.accept_word("program")) {
        cursor.fail("program");
      }
      has_begun_ = true;
      if (cursor.accept("@")) {
        program_.mesh = DeviceMesh::parse(cursor);
      }
    } else if (cursor.accept_word("symbol")) {
      parse_symbol(cursor);
    } else if (cursor.accept_word("input")) {
      parse_input(cursor);
    } else if (cursor.accept_word("output")) {
      parse_output(cursor);
    } else {
      parse_node(cursor);
    }
  }

  void parse_symbol(TextCursor& cursor) {
    auto ahead = cursor;
    const auto [place, is_new] = program_.symbols.try_emplace(std::string(cursor.word()));
    if (!is_new) {
      ahead.fail("a symbol that is not declared above");
    }
    auto& symbol = place->second;
    if (cursor.accept("=")) {
      symbol.hint = cursor.integer();
    }
    if (cursor.accept_word("in")) {
      cursor.expect("[");
      symbol.min = parse_bound(cursor);
      cursor.expect(",");
      symbol.max = parse_bound(cursor);
      cursor.expect("]");
    }
  }

  void parse_input(TextCursor& cursor) {
    Input input;
    if (cursor.rest().starts_with('%')) {
      const auto definition = parse_definition(cursor);
      input.value = program_.graph->add_input(definition.name, *definition.type);
      define(input.value, definition);
    } else {
      input.constant = parse_constant(cursor, c10::AnyType::get());
    }
    cursor.expect("=");
    input.kind = parse_kind<InputKind, 4>(cursor, {"parameter", "buffer", "constant", "user"});
    if (cursor.rest().starts_with('"')) {
      input.target = parse_quoted(cursor);
    }
    input.is_persistent = !cursor.accept_word("not_persistent");
    program_.inputs.push_back(std::move(input));
  }

  void parse_output(TextCursor& cursor) {
    Output output;
    if (cursor.rest().starts_with('%')) {
      output.operand = results_.size();
      results_.push_back(parse_use(cursor));
    } else {
      output.constant = parse_constant(cursor, c10::AnyType::get());
    }
    cursor.expect("=");
    output.kind =
        parse_kind<OutputKind, 4>(cursor, {"user", "buffer_mutation", "parameter_mutation", "input_mutation"});
    if (cursor.rest().starts_with('"')) {
      output.target = parse_quoted(cursor);
    }
    program_.outputs.push_back(std::move(output));
  }

  std::string parse_name(TextCursor& cursor) {
    cursor.expect("%");
    return cursor.rest().starts_with('"') ? parse_quoted(cursor) : std::string(cursor.word());
  }

  Definition parse_definition(TextCursor& cursor) {
    if (cursor.accept_word("_")) {
      return {};
    }
    auto ahead = cursor;
    Definition definition{.name = parse_name(cursor), .type = {}, .layout = {}};
    if (!names_.insert(definition.name).second) {
      ahead.fail("a name that is not taken");
    }
    cursor.expect(":");
    definition.type = parse_type(cursor);
    if (cursor.rest().starts_with('{')) {
      definition.layout = Layout::parse(cursor);
    }
    return definition;
  }

  Value* parse_use(TextCursor& cursor) {
    auto ahead = cursor;
    const auto found = values_.find(parse_name(cursor));
    if (found == values_.end()) {
      ahead.fail("a value that is defined above");
    }
    return found->second;
  }

  void define(Value* value, const Definition& definition) {
    value->layout = definition.layout;
    values_.emplace(definition.name, value);
  }

  std::vector<Definition> parse_outputs(TextCursor& cursor, std::vector<int64_t>& lists) {
    std::vector<Definition> outputs;
    do {
      if (!cursor.accept("[")) {
        outputs.push_back(parse_definition(cursor));
        lists.push_back(Node::kSingle);
        continue;
      }
      const auto before = outputs.size();
      while (!cursor.accept("]")) {
        if (outputs.size() > before) {
          cursor.expect(",");
        }
        outputs.push_back(parse_definition(cursor));
      }
      lists.push_back(static_cast<int64_t>(outputs.size() - before));
    } while (cursor.accept(","));
    cursor.expect("=");
    return outputs;
  }

  void parse_node(TextCursor& cursor) {
    OutputTypes types;
    std::vector<Definition> outputs;
    const auto rest = cursor.rest();
    if (rest.starts_with('%') || rest.starts_with('[') || cursor.word_ahead() == "_") {
      outputs = parse_outputs(cursor, types.lists);
    }
    for (const auto& output : outputs) {
      types.types.push_back(output.type);
      types.names.push_back(output.name);
    }
    auto target = parse_target(cursor);
    std::vector<Value*> operands;
    Arguments arguments;
    cursor.expect("(");
    if (const auto* op = std::get_if<c10::OperatorHandle>(&target)) {
      arguments = parse_arguments(cursor, op->schema(), operands);
    } else if (auto* step = std::get_if<SharedStep>(&target)) {
      arguments = {parse_argument(cursor, c10::AnyType::get(), operands)};
      cursor.expect(",");
      *step = parse_step(cursor, (*step)->kind, program_.mesh);
      cursor.expect(")");
    } else {
      while (!cursor.accept(")")) {
        if (!arguments.empty()) {
          cursor.expect(",");
        }
        arguments.push_back(parse_argument(cursor, c10::AnyType::get(), operands));
      }
    }
    auto* node = program_.graph->insert(nullptr, std::move(target), std::move(arguments), operands, std::move(types));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (node->output(i) != nullptr) {
        define(node->output(i), outputs[i]);
      }
    }
    if (cursor.accept_word("in")) {
      const auto word = cursor.word_ahead(".");
      node->origin.module = word.empty() ? parse_quoted(cursor) : std::string(word);
      cursor.skip(word.size());
    }
    if (node->op() != nullptr && !cursor.at_end()) {
      node->sharding = std::make_shared<CallSharding>(parse_sharding(cursor, node->op()->schema()));
    }
  }

  Target parse_target(TextCursor& cursor) {
    const auto name = cursor.word_ahead(":.");
    std::optional<Target> target;
    if (name.find("::") != std::string_view::npos) {
      const auto dot = std::min(name.find('.', name.find("::")), name.size());
      const auto op = c10::Dispatcher::singleton().findSchema(
          {std::string(name.substr(0, dot)), std::string(name.substr(std::min(dot + 1, name.size())))});
      if (op) {
        target = *op;
      }
    } else if (const auto* function = find_scalar_function(name)) {
      target = function;
    }
    for (const auto kind :
         {StepKind::Slice, StepKind::AllGather, StepKind::AllToAll, StepKind::ReduceScatter, StepKind::AllReduce,
          StepKind::MakePartial}) {
      if (name == to_string(kind)) {
        target = Step{.kind = kind, .mesh_dims = {}, .before = {}, .after = {}};
      }
    }
    if (!target) {
      cursor.fail("an operator, a function of numbers or a step of a redistribution that there is");
    }
    cursor.skip(name.size());
    return *target;
  }

  Argument parse_argument(TextCursor& cursor, const c10::TypePtr& type, std::vector<Value*>& operands) {
    if (cursor.rest().starts_with('%')) {
      operands.push_back(parse_use(cursor));
      return Argument::operand(operands.size() - 1);
    }
    const auto rest = cursor.rest();
    // A list without operands is a constant.
    const auto is_list =
        rest.starts_with('[') && rest.substr(0, rest.find_first_of("]\"")).find('%') != std::string::npos;
    if (!is_list) {
      return parse_constant(cursor, type);
    }
    const auto element = element_type(*type);
    std::vector<Argument> elements;
    cursor.expect("[");
    while (!cursor.accept("]")) {
      if (!elements.empty()) {
        cursor.expect(",");
      }
      elements.push_back(parse_argument(cursor, element, operands));
    }
    return Argument::list(std::move(elements));
  }

  Arguments parse_arguments(TextCursor& cursor, const c10::FunctionSchema& schema, std::vector<Value*>& operands) {
    const auto& known = schema.arguments();
    Arguments arguments(known.size());
    for (size_t next = 0; !cursor.accept(")"); ++next) {
      if (next > 0) {
        cursor.expect(",");
      }
      const auto word = cursor.word_ahead();
      size_t number = next;
      if (!word.empty() && cursor.rest().substr(word.size()).starts_with('=')) {
        number = parse_argument_name(cursor, schema);
        cursor.expect("=");
      }
      if (number >= known.size() || !arguments[number].is_absent()) {
        cursor.fail("no more arguments of " + schema.name());
      }
      arguments[number] = parse_argument(cursor, known[number].real_type(), operands);
    }
    return arguments;
  }

  Program program_;
  bool has_begun_ = false;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, Value*> values_;
  std::vector<Value*> results_;
};

} // namespace

Program parse_program(std::string_view text) {
  return ProgramParser().run(text);
}

} // namespace weft::graph
