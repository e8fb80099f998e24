#include "weft/rules/rule_pattern.h"

#include "weft/core/text_cursor.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <set>

namespace weft {

namespace {

constexpr const char* kWhere = "register_sharding";
const std::string kEllipsis = "...";

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The type of an argument without Optional.
const c10::Type& required_type(const c10::Type& type) {
  return type.kind() == c10::TypeKind::OptionalType ? *type.castRaw<c10::OptionalType>()->getElementType() : type;
}

bool is_tensor(const c10::Argument& argument) {
  return required_type(*argument.type()).kind() == c10::TypeKind::TensorType;
}

bool is_tensor_list(const c10::Argument& argument) {
  const auto& type = required_type(*argument.type());
  return type.kind() == c10::TypeKind::ListType &&
      required_type(*type.castRaw<c10::ListType>()->getElementType()).kind() == c10::TypeKind::TensorType;
}

bool states_sizes(const c10::Argument& argument) {
  const auto is_integer = [](const c10::Type& type) {
    return type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::SymIntType;
  };
  const auto& type = required_type(*argument.type());
  return is_integer(type) ||
      (type.kind() == c10::TypeKind::ListType && is_integer(*type.castRaw<c10::ListType>()->getElementType()));
}

} // namespace

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : cursor_(kWhere, text) {
    pattern_.text_ = text;
  }

  RulePattern run() {
    pattern_.inputs_ = tensors();
    cursor_.expect("->");
    pattern_.outputs_ = tensors();
    while (!cursor_.at_end()) {
      clause();
    }
    check_factors();
    check_sets();
    return std::move(pattern_);
  }

 private:
  using Dims = RulePattern::Dims;

  std::vector<Dims> tensors() {
    std::vector<Dims> result;
    cursor_.expect("(");
    if (cursor_.accept(")")) {
      return result;
    }
    do {
      result.push_back(dims());
    } while (cursor_.accept(","));
    cursor_.expect(")");
    return result;
  }

  Dims dims() {
    Dims result;
    cursor_.expect("[");
    if (cursor_.accept("]")) {
      return result;
    }
    do {
      if (result.empty() && cursor_.accept(kEllipsis)) {
        result.push_back({kEllipsis});
      } else if (cursor_.accept("-")) {
        result.emplace_back();
      } else if (cursor_.accept("(")) {
        auto& dim = result.emplace_back();
        do {
          dim.emplace_back(cursor_.word());
        } while (!cursor_.accept(")"));
      } else {
        result.push_back({std::string(cursor_.word())});
      }
    } while (cursor_.accept(","));
    cursor_.expect("]");
    std::set<std::string> seen;
    for (const auto& dim : result) {
      for (const auto& factor : dim) {
        TORCH_CHECK_VALUE(
            seen.insert(factor).second, "[", kWhere, "] a factor may occur once in a tensor, but got '", factor,
            "' twice in '", pattern_.text_, "'. Write - for a dim that must not be sharded.");
      }
    }
    return result;
  }

  std::vector<std::string> factors() {
    std::vector<std::string> result;
    cursor_.expect("{");
    do {
      result.emplace_back(cursor_.word());
    } while (cursor_.accept(","));
    cursor_.expect("}");
    return result;
  }

  std::vector<int64_t> numbers() {
    cursor_.expect("{");
    auto result = cursor_.integers();
    cursor_.expect("}");
    return result;
  }

  std::vector<std::vector<int64_t>> number_sets() {
    std::vector<std::vector<int64_t>> result;
    do {
      result.push_back(numbers());
    } while (cursor_.rest().starts_with('{'));
    return result;
  }

  void clause() {
    auto& sets = pattern_.sets_;
    const auto name = std::string(cursor_.word());
    if (name == "linear") {
      sets.linear_in_any_op = cursor_.accept("*");
      if (cursor_.accept("(")) {
        sets.linear_op = parse_reduce_op(cursor_.word());
        cursor_.expect(")");
      }
    }
    cursor_.expect("=");
    if (name == "linear") {
      sets.linear = number_sets();
    } else if (name == "sum" || name == "avg" || name == "max" || name == "min" || name == "product") {
      sets.reduction = parse_reduce_op(name);
      reduced_ = factors();
    } else if (name == "unsharded") {
      pattern_.unsharded_ = factors();
    } else if (name == "filled") {
      pattern_.filled_ = factors();
    } else if (auto* const set = set_of(name)) {
      *set = numbers();
    } else if (name == "lookup") {
      cursor_.fail("no lookup, which only Weft's own rules may have");
    } else {
      pattern_.size_arguments_.push_back({name, dims()});
    }
  }

  std::vector<int64_t>* set_of(std::string_view name) {
    auto& sets = pattern_.sets_;
    return name == "added"   ? &sets.added
        : name == "unread"   ? &sets.unread
        : name == "any"      ? &sets.of_any_layout
        : name == "updated"  ? &sets.updated
        : name == "constant" ? &sets.constant
                             : nullptr;
  }

  static std::set<std::string> factors_of(const std::vector<Dims>& tensors) {
    std::set<std::string> result;
    for (const auto& dims : tensors) {
      for (const auto& dim : dims) {
        result.insert(dim.begin(), dim.end());
      }
    }
    return result;
  }

  void check_factors() const {
    const auto inputs = factors_of(pattern_.inputs_);
    const auto outputs = factors_of(pattern_.outputs_);
    std::vector<Dims> stated;
    for (const auto& argument : pattern_.size_arguments_) {
      stated.push_back(argument.dims);
    }
    const auto sizes = factors_of(stated);
    for (const auto& factor : outputs) {
      TORCH_CHECK_VALUE(
          inputs.contains(factor) || sizes.contains(factor), "[", kWhere,
          "] a factor of an output must be one of an "
          "input, but got '",
          factor, "' in '", pattern_.text_, "'. Write - for a dim that has no counterpart.");
    }
    for (const auto& listed : {pattern_.unsharded_, pattern_.filled_, reduced_}) {
      for (const auto& factor : listed) {
        TORCH_CHECK_VALUE(
            inputs.contains(factor), "[", kWhere, "] a listed factor must be one of an input, but got '", factor,
            "' in '", pattern_.text_, "'.");
      }
    }
    for (const auto& factor : inputs) {
      const bool is_reduced = !outputs.contains(factor) && !pattern_.outputs_.empty();
      TORCH_CHECK_VALUE(
          !is_reduced || contains(reduced_, factor) || contains(pattern_.unsharded_, factor), "[", kWhere,
          "] a factor that no output has must be listed, but got '", factor, "' in '", pattern_.text_, "'. Add sum={",
          factor, "} if the operator sums over it (or max, min, product, avg), else unsharded={", factor, "}.");
      TORCH_CHECK_VALUE(
          is_reduced || !contains(reduced_, factor), "[", kWhere, "] a reduced factor must be in no output, but got '",
          factor, "' in '", pattern_.text_, "'.");
    }
  }

  void check_sets() const {
    const auto& sets = pattern_.sets_;
    auto inputs = sets.linear;
    inputs.insert(inputs.end(), {sets.added, sets.unread, sets.of_any_layout, sets.updated});
    for (const auto& set : inputs) {
      check_numbers(set, pattern_.inputs_.size(), "input");
    }
    check_numbers(sets.constant, pattern_.outputs_.size(), "output");
  }

  void check_numbers(const std::vector<int64_t>& set, size_t count, const char* what) const {
    for (const auto number : set) {
      TORCH_CHECK_VALUE(
          number >= 0 && static_cast<size_t>(number) < count, "[", kWhere, "] the number of an ", what, " below ",
          count, " is required, but got ", number, " in '", pattern_.text_, "'.");
    }
  }

  TextCursor cursor_;
  RulePattern pattern_;
  std::vector<std::string> reduced_;
};

/// One call, matched with a pattern.
class PatternMatch {
 public:
  PatternMatch(const RulePattern& pattern, const OpCall& call) : pattern_(pattern), call_(call) {}

  std::optional<Rule> run() {
    if (!match_inputs()) {
      return std::nullopt;
    }
    for (const auto& argument : pattern_.size_arguments_) {
      match_sizes(argument.dims, call_.integers(argument.name));
    }
    if (!solve()) {
      return std::nullopt;
    }
    take_factors();
    take_sets();
    return fits_ ? std::optional(std::move(rule_)) : std::nullopt;
  }

 private:
  using Dims = RulePattern::Dims;

  /// Which operand each input of the text is; -1 for an absent one. Empty if their numbers differ.
  std::optional<std::vector<int64_t>> operands() const {
    const auto& arguments = call_.schema().arguments();
    const auto has_lists = std::any_of(arguments.begin(), arguments.end(), [](const auto& argument) {
      return !argument.is_out() && is_tensor_list(argument);
    });
    std::vector<int64_t> result;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto range = call_.operands_at(i);
      if (!has_lists && is_tensor(arguments[i]) && !arguments[i].is_out() && range.count == 0) {
        result.push_back(-1);
      }
      for (int64_t k = 0; k < range.count; ++k) {
        result.push_back(range.begin + k);
      }
    }
    return result.size() == pattern_.inputs_.size() ? std::optional(result) : std::nullopt;
  }

  bool match_inputs() {
    const auto found = operands();
    if (!found) {
      return false;
    }
    operand_of_ = *found;
    for (size_t i = 0; i < operand_of_.size(); ++i) {
      if (operand_of_[i] >= 0) {
        match_sizes(pattern_.inputs_[i], call_.operand(operand_of_[i]).sizes);
      }
    }
    return fits_;
  }

  /// The names of the factors with `...` expanded to as many dims as are left.
  Dims expanded(const Dims& dims, size_t count) const {
    if (dims.empty() || dims[0] != std::vector<std::string>{kEllipsis}) {
      return dims;
    }
    Dims result;
    for (size_t i = 0; i < count; ++i) {
      result.push_back({kEllipsis + std::to_string(i)});
    }
    result.insert(result.end(), dims.begin() + 1, dims.end());
    return result;
  }

  void match_sizes(const Dims& dims, c10::IntArrayRef sizes) {
    const bool has_ellipsis = !dims.empty() && dims[0] == std::vector<std::string>{kEllipsis};
    if (has_ellipsis ? sizes.size() + 1 < dims.size() : sizes.size() != dims.size()) {
      fits_ = false;
      return;
    }
    if (has_ellipsis) {
      const auto leading = sizes.size() + 1 - dims.size();
      fits_ = fits_ && leading_.value_or(leading) == leading;
      leading_ = leading;
    }
    const auto names = expanded(dims, leading_.value_or(0));
    for (size_t d = 0; d < names.size() && fits_; ++d) {
      equations_.emplace_back(names[d], sizes[d]);
    }
  }

  /// Finds the size of every factor: that of a dim of one factor is given, that of one among several follows.
  bool solve() {
    for (bool is_new = true; is_new;) {
      is_new = false;
      for (const auto& [names, size] : equations_) {
        int64_t known = 1;
        std::vector<std::string> unknown;
        for (const auto& name : names) {
          const auto found = sizes_.find(name);
          found == sizes_.end() ? unknown.push_back(name) : static_cast<void>(known *= found->second);
        }
        if (unknown.size() == 1 && known > 0 && size % known == 0) {
          sizes_[unknown[0]] = size / known;
          is_new = true;
        }
      }
    }
    return std::all_of(equations_.begin(), equations_.end(), [&](const auto& equation) {
      int64_t product = 1;
      for (const auto& name : equation.first) {
        const auto found = sizes_.find(name);
        if (found == sizes_.end()) {
          return false;
        }
        product *= found->second;
      }
      return equation.first.empty() || product == equation.second;
    });
  }

  Rule::Dims factors(const Dims& dims) {
    Rule::Dims result;
    for (const auto& names : expanded(dims, leading_.value_or(0))) {
      auto& dim = result.emplace_back();
      for (const auto& name : names) {
        dim.push_back(factor(name));
      }
    }
    return result;
  }

  Rule::Factor factor(const std::string& name) {
    const auto known = factors_.find(name);
    if (known != factors_.end()) {
      return known->second;
    }
    const auto size = sizes_.find(name);
    fits_ = fits_ && size != sizes_.end(); // a factor of an absent input has no size
    const auto added = rule_.add_factor(size == sizes_.end() ? 1 : size->second);
    factors_.emplace(name, added);
    return added;
  }

  void take_factors() {
    for (size_t i = 0; i < operand_of_.size(); ++i) {
      if (operand_of_[i] >= 0) {
        rule_.inputs.push_back(factors(pattern_.inputs_[i]));
      }
    }
    for (const auto& output : pattern_.outputs_) {
      rule_.outputs.push_back(factors(output));
    }
    for (const auto& argument : pattern_.size_arguments_) {
      rule_.size_arguments.push_back({argument.name, call_.integers(argument.name), factors(argument.dims)});
    }
    for (const auto& name : pattern_.unsharded_) {
      if (factors_.contains(name)) {
        rule_.unsharded.push_back(factors_[name]);
      }
    }
    for (const auto& name : pattern_.filled_) {
      if (factors_.contains(name)) {
        rule_.filled.push_back(factors_[name]);
      }
    }
  }

  std::vector<int64_t> numbered(const std::vector<int64_t>& inputs) const {
    std::vector<int64_t> result;
    for (const auto input : inputs) {
      if (operand_of_[input] >= 0) {
        result.push_back(operand_of_[input]);
      }
    }
    return result;
  }

  void take_sets() {
    const auto& sets = pattern_.sets_;
    rule_.reduction = sets.reduction;
    rule_.linear_in_any_op = sets.linear_in_any_op;
    rule_.linear_op = sets.linear_op;
    for (const auto& set : sets.linear) {
      if (auto numbers = numbered(set); !numbers.empty()) {
        rule_.linear.push_back(std::move(numbers));
      }
    }
    rule_.added = numbered(sets.added);
    rule_.unread = numbered(sets.unread);
    rule_.of_any_layout = numbered(sets.of_any_layout);
    rule_.updated = numbered(sets.updated);
    rule_.constant = sets.constant;
  }

  const RulePattern& pattern_;
  const OpCall& call_;
  std::vector<int64_t> operand_of_;
  std::vector<std::pair<std::vector<std::string>, int64_t>> equations_; // the factors of a dim, and its size
  std::optional<size_t> leading_;                                       // the number of dims of `...`
  std::map<std::string, int64_t> sizes_;
  std::map<std::string, Rule::Factor> factors_;
  Rule rule_;
  bool fits_ = true;
};

RulePattern RulePattern::parse(std::string_view text) {
  return PatternParser(text).run();
}

void RulePattern::check(const c10::FunctionSchema& schema) const {
  size_t tensors = 0;
  bool has_lists = false;
  for (const auto& argument : schema.arguments()) {
    tensors += !argument.is_out() && is_tensor(argument) ? 1 : 0;
    has_lists = has_lists || (!argument.is_out() && is_tensor_list(argument));
  }
  TORCH_CHECK_VALUE(
      has_lists ? inputs_.size() >= tensors : inputs_.size() == tensors, "[", kWhere, "] ", tensors,
      has_lists ? " inputs or more" : " inputs", " are required for ", schema, ", but got ", inputs_.size(), " in '",
      text_, "'. Give the dims of every tensor argument.");
  size_t results = 0;
  bool gives_lists = false;
  for (const auto& result : schema.returns()) {
    results += is_tensor(result) ? 1 : 0;
    gives_lists = gives_lists || is_tensor_list(result);
  }
  TORCH_CHECK_VALUE(
      gives_lists || outputs_.size() == results, "[", kWhere, "] ", results, " outputs are required for ", schema,
      ", but got ", outputs_.size(), " in '", text_, "'. Give the dims of every tensor that it returns.");
  for (const auto& size : size_arguments_) {
    const auto index = schema.argumentIndexWithName(size.name);
    TORCH_CHECK_VALUE(
        index && states_sizes(schema.arguments()[*index]), "[", kWhere,
        "] the name of an argument that states sizes is "
        "required before '=', but got '",
        size.name, "' in '", text_, "', which is no such argument of ", schema, ".");
  }
}

std::optional<Rule> RulePattern::rule(const OpCall& call) const {
  return PatternMatch(*this, call).run();
}

} // namespace weft
