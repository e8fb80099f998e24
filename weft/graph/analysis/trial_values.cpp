#include "weft/graph/analysis/trial_values.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace weft::graph {

namespace {

bool is_prime(int64_t number) {
  for (int64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) {
      return false;
    }
  }
  return number > 1;
}

/// The distinct numbers among the program's sizes and the sizes of its mesh.
std::vector<int64_t> numbers_in(const Program& program) {
  std::unordered_set<int64_t> found;
  if (program.mesh) {
    found.insert(program.mesh->shape().begin(), program.mesh->shape().end());
  }
  const auto add = [&](const Value* value) {
    if (value != nullptr && value->is_tensor()) {
      for (const auto& size : value->tensor().sizes) {
        if (size.is_number()) {
          found.insert(size.number());
        }
      }
    }
  };
  for (const auto* input : program.graph->inputs()) {
    add(input);
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    for (const auto* output : node->outputs()) {
      add(output);
    }
  }
  return {found.begin(), found.end()};
}

bool can_stand_in(int64_t number, const std::vector<int64_t>& numbers) {
  return is_prime(number) &&
      std::none_of(numbers.begin(), numbers.end(), [&](int64_t other) { return other > 0 && other % number == 0; });
}

} // namespace

TrialValues::TrialValues(const Program& program, int64_t choice) : choice_(choice), next_(10'000 * (choice + 1)) {
  const auto numbers = program.symbols.empty() ? std::vector<int64_t>{} : numbers_in(program);
  for (const auto& [name, symbol] : program.symbols) {
    add_symbol(name, symbol, numbers);
  }
  for (const auto& input : program.inputs) {
    if (input.value != nullptr && !input.value->is_tensor()) {
      numbers_[input.value] = of_type(std::get<NumberType>(input.value->type));
    }
  }
}

void TrialValues::add_symbol(const std::string& name, const Symbol& symbol, const std::vector<int64_t>& numbers) {
  constexpr int64_t kLargest = 1'000'000;
  const auto min = symbol.min.value_or(2);
  const auto max = std::min(symbol.max.value_or(kLargest), kLargest);
  const auto is_free = [&](int64_t number) {
    return can_stand_in(number, numbers) &&
        std::none_of(stand_ins_.begin(), stand_ins_.end(), [&](const auto& other) { return other.first == number; });
  };
  for (auto number = std::max(next_, min); number <= max; ++number) {
    if (is_free(number)) {
      next_ = number;
      stand_ins_.emplace_back(number, name);
      symbols_[name] = number;
      return;
    }
  }
  auto skipped = choice_;
  for (auto number = max; number >= std::max<int64_t>(min, 5); --number) {
    if (is_free(number) && skipped-- == 0) {
      stand_ins_.emplace_back(number, name);
      symbols_[name] = number;
      return;
    }
  }
  if (symbol.min && symbol.max && *symbol.min == *symbol.max) {
    symbols_[name] = *symbol.min;
    return;
  }
  auto number = next_;
  while (!is_free(number)) {
    ++number;
  }
  stand_ins_.emplace_back(number, name);
  symbols_[name] = number;
  impossible_.insert(name);
}

bool TrialValues::is_possible(const Size& size) const {
  const auto symbols = size.symbols();
  return std::all_of(
      symbols.begin(), symbols.end(), [&](const auto& symbol) { return impossible_.count(symbol) == 0; });
}

std::vector<int64_t> TrialValues::of(const Sizes& sizes) const {
  std::vector<int64_t> result;
  result.reserve(sizes.size());
  for (const auto& size : sizes) {
    result.push_back(of(size));
  }
  return result;
}

const c10::IValue& TrialValues::of(const Value* number) const {
  const auto found = numbers_.find(number);
  TORCH_INTERNAL_ASSERT(found != numbers_.end(), "%", number->name(), " has no trial value");
  return found->second;
}

c10::IValue TrialValues::of_type(const NumberType& type) const {
  if (type.kind == NumberKind::Int && !type.expression.empty()) {
    return Size::parse(type.expression).evaluate(symbols_);
  }
  return type.kind == NumberKind::Float ? c10::IValue(1.5)
      : type.kind == NumberKind::Bool   ? c10::IValue(true)
                                        : c10::IValue(next_);
}

void TrialValues::add(const Node& node) {
  if (const auto* function = node.function()) {
    std::vector<c10::IValue> arguments;
    for (const auto& argument : node.arguments()) {
      arguments.push_back(argument.is_operand() ? of(node.operand(argument.operand())) : argument.constant());
    }
    numbers_[node.output()] = function->call(arguments);
    return;
  }
  for (const auto* output : node.outputs()) {
    if (output != nullptr && !output->is_tensor()) {
      numbers_[output] = of_type(std::get<NumberType>(output->type));
    }
  }
}

Size written_out(int64_t number, const StandIns& stand_ins) {
  Size symbols = 1;
  for (const auto& [prime, name] : stand_ins) {
    while (number != 0 && number % prime == 0) {
      number /= prime;
      symbols = symbols * Size::symbol(name);
    }
  }
  return Size(number) * symbols;
}

bool is_size_query(const Node& node) {
  return node.op() != nullptr && node.op()->schema().name().starts_with("aten::sym_") &&
      !node.op()->schema().name().starts_with("aten::sym_constrain");
}

} // namespace weft::graph
