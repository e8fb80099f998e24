#pragma once

#include "weft/rules/rule.h"

#include <map>
#include <string_view>

namespace weft {

/// A rule as text, for calls of any sizes. The text is that of Rule::to_string (docs/rules.md), and in addition:
///
///   - Factors may have names of several characters: "([rows,k],[k,columns])->([rows,columns]) sum={k}".
///   - A leading `...` stands for any number of dims, the same in every tensor that has it: "([...,a],[a])->([...,a])".
///   - Inputs are the tensor arguments of the operator; of an optional one that is absent the dims do not count.
///
/// Lookups and rules by element (`lookup=`, `each:`) are not parsed. A factor that no output has must be listed, as
/// `sum={k}` or as `unsharded={k}`: what a reduction does is not guessed.
class RulePattern {
 public:
  static RulePattern parse(std::string_view text);

  /// Raises unless the operator has as many tensor arguments and results as the text, and its size arguments.
  void check(const c10::FunctionSchema& schema) const;

  /// The rule of a call; empty if the operands do not fit the text: another ndim, or two sizes for one factor.
  std::optional<Rule> rule(const OpCall& call) const;

 private:
  friend class PatternParser;
  friend class PatternMatch;

  /// The names of the factors of each dim; a first dim "..." is not expanded yet.
  using Dims = std::vector<std::vector<std::string>>;
  struct SizeArgument {
    std::string name;
    Dims dims;
  };

  std::string text_;
  std::vector<Dims> inputs_;
  std::vector<Dims> outputs_;
  std::vector<std::string> unsharded_;
  std::vector<std::string> filled_;
  std::vector<SizeArgument> size_arguments_;
  Rule sets_; // the reduction and the sets of operands, numbered as in the text
};

} // namespace weft
