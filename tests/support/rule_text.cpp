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

/// How many of the tensors that are left a list takes: lists share what the tensors after them leave.
size_t list_length(const c10::FunctionSchema& schema, size_t list, size_t left) {
  size_t lists = 0;
  size_t single = 0;
  for (size_t a = list; a < schema.arguments().size(); ++a) {
    const auto& type = schema.arguments()[a].type();
    lists += is_tensor_list(type) ? 1 : 0;
    single += type->kind() == c10::TypeKind::TensorType && !schema.arguments()[a].is_out() ? 1 : 0;
  }
  return (left - single) / lists;
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
  size_t next = 0; // of the shapes
  for (size_t a = 0; a < schema_->arguments().size(); ++a) {
    const auto& argument = schema_->arguments()[a];
    const auto begin = static_cast<int64_t>(operands_.size());
    auto end = next;
    if (is_tensor_list(argument.type())) {
      end += list_length(*schema_, a, shapes_.size() - next);
    } else if (is_tensor(argument.type()) && next < shapes_.size()) {
      ++end;
    }
    c10::List<std::optional<at::Tensor>> tensors;
    for (; next < end; ++next) {
      if (shapes_[next] == kAbsent) {
        tensors.push_back(std::nullopt);
        continue;
      }
      tensors.push_back(at::empty(shapes_[next], at::kMeta));
      operands_.push_back({shapes_[next], at::kFloat});
    }
    ranges_.push_back({begin, static_cast<int64_t>(operands_.size()) - begin});
    const auto given = arguments.find(argument.name());
    if (is_tensor_list(argument.type())) {
      arguments_.emplace_back(tensors);
    } else if (!tensors.empty()) {
      arguments_.emplace_back(tensors.get(0));
    } else if (given != arguments.end()) {
      arguments_.push_back(given->second);
      ++used_arguments;
    } else {
      arguments_.push_back(argument.default_value().value_or(c10::IValue()));
    }
  }
  TORCH_INTERNAL_ASSERT(next == shapes_.size(), op_with_overload, " takes fewer tensors");
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
  const auto end = text.find(") ", text.find("->"));
  return end == std::string::npos ? text : text.substr(0, end + 1);
}

} // namespace weft::testing
