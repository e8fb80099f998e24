#include "weft/graph/passes/trial_values.h"

#include <c10/util/Exception.h>

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

/// The first prime above `low` that is not above `high`; none gives 0.
int64_t prime_between(int64_t low, int64_t high) {
  for (auto number = low + 1; number <= high; ++number) {
    if (is_prime(number)) {
      return number;
    }
  }
  return 0;
}

int64_t largest_prime_up_to(int64_t high, int64_t low) {
  for (auto number = high; number >= low; --number) {
    if (is_prime(number)) {
      return number;
    }
  }
  return 0;
}

} // namespace

TrialValues::TrialValues(const Program& program) {
  for (const auto& [name, symbol] : program.symbols) {
    add_symbol(name, symbol);
  }
  for (const auto& input : program.inputs) {
    if (input.value != nullptr && !input.value->is_tensor()) {
      numbers_[input.value] = of_type(std::get<NumberType>(input.value->type));
    }
  }
}

void TrialValues::add_symbol(const std::string& name, const Symbol& symbol) {
  constexpr int64_t kLargest = 1'000'000;
  const auto min = symbol.min.value_or(2);
  const auto max = std::min(symbol.max.value_or(kLargest), kLargest);
  auto value = prime_between(std::max(next_, min), max);
  if (value != 0) {
    next_ = value;
  } else {
    value = largest_prime_up_to(max, std::max<int64_t>(min, 5));
  }
  symbols_[name] = value != 0 ? value : symbol.hint.value_or(std::max<int64_t>(min, 2));
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
  return type.kind == NumberKind::Float ? c10::IValue(1.5) : type.kind == NumberKind::Bool ? c10::IValue(true) : c10::IValue(next_);
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

bool is_size_query(const Node& node) {
  return node.op() != nullptr && node.op()->schema().name().starts_with("aten::sym_") &&
      !node.op()->schema().name().starts_with("aten::sym_constrain");
}

} // namespace weft::graph
