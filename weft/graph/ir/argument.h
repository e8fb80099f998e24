#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

namespace weft::graph {

/// An argument of a node: a constant, one of the node's operands by index, a list of these, or absent. The operator's
/// default applies to an absent argument.
///
///   view(%x, [%s, 4])      Argument::operand(0), Argument::list({Argument::operand(1), 4})
class Argument {
 public:
  enum class Kind : uint8_t { Absent, Constant, Operand, List };

  Argument() = default;
  Argument(c10::IValue constant) : kind_(Kind::Constant), constant_(std::move(constant)) {}
  static Argument operand(size_t number) {
    Argument argument;
    argument.kind_ = Kind::Operand;
    argument.operand_ = static_cast<uint32_t>(number);
    return argument;
  }
  static Argument list(std::vector<Argument> elements) {
    Argument argument;
    argument.kind_ = Kind::List;
    argument.elements_ = std::make_shared<const std::vector<Argument>>(std::move(elements));
    return argument;
  }

  Kind kind() const {
    return kind_;
  }
  bool is_absent() const {
    return kind_ == Kind::Absent;
  }
  bool is_constant() const {
    return kind_ == Kind::Constant;
  }
  bool is_operand() const {
    return kind_ == Kind::Operand;
  }
  bool is_list() const {
    return kind_ == Kind::List;
  }
  const c10::IValue& constant() const {
    return constant_;
  }
  size_t operand() const {
    return operand_;
  }
  /// A list holds constants and operands; a list without operands is one constant.
  const std::vector<Argument>& elements() const {
    static const std::vector<Argument> none;
    return elements_ == nullptr ? none : *elements_;
  }

 private:
  // Kept small because a node has many arguments. Few are lists, and copies of an argument share its list.
  Kind kind_ = Kind::Absent;
  uint32_t operand_ = 0;
  c10::IValue constant_;
  std::shared_ptr<const std::vector<Argument>> elements_;
};

using Arguments = std::vector<Argument>;

} // namespace weft::graph
