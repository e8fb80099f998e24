#include "tests/support/rule_text.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

namespace weft::testing {

namespace {

bool is_tensor(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return (optional ? optional->getElementType() : type)->kind() == c10::TypeKind::TensorType;
}

bool is_tensor_list(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  return list && is_tensor(list->getElementType());
}

} // namespace

RuleCall::RuleCall(const std::string& op_with_overload, std::vector<Ints> shapes, const Arguments& arguments)
    : shapes_(std::move(shapes)) {
  const auto dot = op_with_overload.find('.');
  const auto overload = dot == std::string::npos ? "" : op_with_overload.substr(dot + 1);
  const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow(op_with_overload.substr(0, dot).c_str(), overload.c_str());
  schema_ = &op.schema();
  size_t used_arguments = 0;
  for (const auto& argument : schema_->arguments()) {
    const auto begin = static_cast<int64_t>(operands_.size());
    auto end = begin;
    if (is_tensor_list(argument.type())) {
      end = static_cast<int64_t>(shapes_.size());
    } else if (is_tensor(argument.type()) && begin < static_cast<int64_t>(shapes_.size())) {
      end = begin + 1;
    }
    std::vector<at::Tensor> tensors;
    for (auto i = begin; i < end; ++i) {
      tensors.push_back(at::empty(shapes_[i]));
      operands_.push_back({shapes_[i], tensors.back().scalar_type()});
    }
    ranges_.push_back({begin, end - begin});
    const auto given = arguments.find(argument.name());
    if (is_tensor_list(argument.type())) {
      arguments_.emplace_back(tensors);
    } else if (!tensors.empty()) {
      arguments_.emplace_back(tensors[0]);
    } else if (given != arguments.end()) {
      arguments_.push_back(given->second);
      ++used_arguments;
    } else {
      arguments_.push_back(argument.default_value().value_or(c10::IValue()));
    }
  }
  TORCH_INTERNAL_ASSERT(operands_.size() == shapes_.size(), op_with_overload, " takes fewer tensors");
  TORCH_INTERNAL_ASSERT(used_arguments == arguments.size(), op_with_overload, " has no such argument");
}

OpCall RuleCall::call() const {
  return {*schema_, arguments_, operands_, ranges_};
}

std::optional<Rule> RuleCall::rule() const {
  const auto* rule = RuleRegistry::instance().find(schema_->name());
  return rule == nullptr ? std::nullopt : rule->rule(call());
}

std::string rule_text(const std::string& op_with_overload, std::vector<Ints> shapes, const Arguments& arguments) {
  const auto rule = RuleCall(op_with_overload, std::move(shapes), arguments).rule();
  return rule ? rule->to_string() : "none";
}

std::string mapping_text(const std::string& op_with_overload, std::vector<Ints> shapes, const Arguments& arguments) {
  const auto text = rule_text(op_with_overload, std::move(shapes), arguments);
  return text.substr(0, text.find(' '));
}

} // namespace weft::testing
