#include "python/bindings/bindings.h"

#include "weft/core/tensor_spec.h"
#include "weft/propagation/check_rule.h"
#include "weft/rules/register_rule.h"

#include <torch/csrc/jit/python/pybind_utils.h>

namespace weft::python {

namespace {

constexpr const char* kWhere = "register_sharding";

/// The spec that a function gets in the place of a tensor.
py::object spec_object(const Operand& operand) {
  return py::cast(SpecPtr::unsafe_reclaim_from_nonowning(const_cast<TensorSpec*>(operand.spec)));
}

bool holds_tensors(const c10::Argument& argument) {
  auto type = argument.type();
  while (type->kind() == c10::TypeKind::OptionalType || type->kind() == c10::TypeKind::ListType) {
    type = type->containedType(0);
  }
  return type->kind() == c10::TypeKind::TensorType;
}

/// An argument of the operator as a function sees it: specs for tensors, None for absent ones and for out= arguments.
py::object argument_object(const OpCall& call, size_t argument) {
  const auto& formal = call.schema().arguments()[argument];
  if (!holds_tensors(formal)) {
    return torch::jit::toPyObject(call.arguments()[argument]);
  }
  const auto range = call.operands_at(argument);
  const bool is_list = call.arguments()[argument].isList();
  if (!is_list) {
    return range.count == 0 ? py::none() : spec_object(call.operand(range.begin));
  }
  py::list specs;
  for (int64_t k = 0; k < range.count; ++k) {
    specs.append(spec_object(call.operand(range.begin + k)));
  }
  return specs;
}

/// A strategy that a function returned for a call.
class ListedStrategy {
 public:
  ListedStrategy(const OpCall& call, py::handle strategy) : call_(call), strategy_(strategy) {}

  Rule::Listed read() const {
    check(
        py::isinstance<py::sequence>(strategy_) && py::len(strategy_) == 2,
        "a pair of output and input placements is required");
    const auto pair = py::reinterpret_borrow<py::sequence>(strategy_);
    Rule::Listed listed;
    listed.outputs = outputs(pair[0]);
    listed.inputs = inputs(pair[1]);
    return listed;
  }

 private:
  template <class... Text>
  void check(bool holds, const Text&... text) const {
    TORCH_CHECK_VALUE(
        holds, "[", kWhere, "] ", text..., ", but got ", py::str(strategy_).cast<std::string>(),
        " from the function of ", call_.schema(), ".");
  }

  /// One placement per tensor: those that are None belong to arguments that hold none. The placements of out= arguments,
  /// which come last, are those of the outputs.
  std::vector<Placement> inputs(const py::object& objects) const {
    check(py::isinstance<py::sequence>(objects), "a sequence of input placements is required");
    std::vector<Placement> result;
    for (const auto object : py::reinterpret_borrow<py::sequence>(objects)) {
      if (!object.is_none()) {
        result.push_back(placement(object));
      }
    }
    const auto count = call_.operands().size();
    check(
        result.size() == count || result.size() == count + out_arguments(), "as many input placements as tensors, ",
        count, ", are required (None for other arguments)");
    result.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const auto ndim = call_.operand(static_cast<int64_t>(i)).dim();
      check(
          !result[i].is_shard() || (result[i].dim() < ndim && result[i].dim() >= -ndim), "a shard dim of input ", i,
          " that the tensor has, of ", ndim, " dims, is required");
      result[i] = result[i].normalized(ndim);
    }
    return result;
  }

  std::vector<Placement> outputs(const py::object& objects) const {
    check(py::isinstance<py::sequence>(objects), "a sequence of output placements is required");
    const auto& returns = call_.schema().returns();
    const bool is_list = returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::ListType;
    const auto given = py::reinterpret_borrow<py::sequence>(objects);
    check(
        is_list || given.size() == returns.size(), "as many output placements as results, ", returns.size(),
        ", are required");
    std::vector<Placement> result;
    for (size_t i = 0; i < given.size(); ++i) {
      const py::object object = given[i];
      if (!is_list && !holds_tensors(returns[i])) {
        check(object.is_none(), "None is required for result ", i, ", which is no tensor");
        continue;
      }
      // None is the placement of a tensor that the call does not return.
      result.push_back(object.is_none() ? Replicate() : placement(object));
      check(
          !result.back().is_shard() || result.back().dim() >= 0,
          "a shard dim that is not negative is required for "
          "output ",
          i);
    }
    return result;
  }

  size_t out_arguments() const {
    size_t count = 0;
    for (const auto& argument : call_.schema().arguments()) {
      count += argument.is_out() ? 1 : 0;
    }
    return count;
  }

  Placement placement(py::handle object) const {
    const auto result = placement_from(kWhere, object);
    check(!result.is_shard() || result.is_plain_shard(), "Replicate, Shard or Partial is required");
    return result;
  }

  const OpCall& call_;
  py::handle strategy_;
};

/// What a Python function says of a call. It is asked once per kind of call and thread.
std::optional<Rule> ask(const py::object& function, const OpCall& call) {
  const py::gil_scoped_acquire gil;
  py::list positional;
  py::dict keywords;
  const auto& arguments = call.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto value = argument_object(call, i);
    if (arguments[i].kwarg_only()) {
      keywords[py::str(arguments[i].name())] = value;
    } else {
      positional.append(value);
    }
  }
  py::object strategies;
  try {
    strategies = function(positional, keywords);
  } catch (py::error_already_set& error) {
    TORCH_CHECK_VALUE(false, "[", kWhere, "] the function of ", call.schema(), " raised ", error.what());
  }
  TORCH_CHECK_VALUE(
      py::isinstance<py::sequence>(strategies), "[", kWhere,
      "] a sequence of (output placements, input placements) is "
      "required, but got ",
      type_name(strategies), " from the function of ", call.schema(), ".");
  Rule rule;
  for (const auto strategy : py::reinterpret_borrow<py::sequence>(strategies)) {
    rule.listed.push_back(ListedStrategy(call, strategy).read());
  }
  if (rule.listed.empty()) {
    return std::nullopt;
  }
  for (const auto& operand : call.operands()) {
    rule.inputs.emplace_back(operand.dim()); // no dim has a factor
  }
  for (const auto& listed : rule.listed) {
    TORCH_CHECK_VALUE(
        listed.outputs.size() == rule.listed[0].outputs.size(), "[", kWhere,
        "] one number of output placements is required, but got ", rule.listed[0].outputs.size(), " and ",
        listed.outputs.size(), " from the function of ", call.schema(), ".");
  }
  rule.outputs.resize(rule.listed[0].outputs.size());
  return rule;
}

std::vector<std::pair<std::string, std::string>> check(
    const std::string& name,
    const std::string& overload,
    const py::tuple& args,
    const py::dict& keywords,
    int64_t ranks) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  const auto stack = torch::jit::createStackForSchema(
      op.schema(), torch::jit::tuple_slice(args), py::reinterpret_borrow<py::kwargs>(keywords), std::nullopt);
  std::vector<CheckedStrategy> checked;
  {
    const py::gil_scoped_release no_gil;
    checked = check_rule(op, stack, ranks);
  }
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& [text, problem] : checked) {
    result.emplace_back(text, problem);
  }
  return result;
}

} // namespace

void bind_rules(py::module_& module) {
  module.def(
      "register_rule",
      [](const std::string& op, const std::vector<std::string>& texts) { return register_rule(op, texts); },
      py::arg("op"), py::arg("texts"), "Registers a rule by its texts; whether it replaced another.");
  module.def(
      "register_rule_function",
      [](const std::string& op, py::object function) {
        // Never freed: calls on other threads may still ask a function that was replaced.
        const auto* kept = new py::object(std::move(function));
        return register_rule(op, [kept](const OpCall& call) { return ask(*kept, call); });
      },
      py::arg("op"), py::arg("function"),
      "Registers a function of (positional, keyword) arguments that returns acceptable shardings.");
  module.def("unregister_rule", &unregister_rule, py::arg("op"), "Removes a registered rule; whether there was one.");
  module.def(
      "check_rule", &check, py::arg("name"), py::arg("overload"), py::arg("args"), py::arg("keywords"),
      py::arg("ranks"), "Every strategy of the operator's rule for a call, with what is wrong with it.");
}

} // namespace weft::python
