#include "weft/propagation/check_rule.h"

#include "weft/core/layout_algebra.h"
#include "weft/propagation/all_strategies.h"
#include "weft/propagation/operator_traits.h"
#include "weft/redistribute/local_tensor_of.h"

#include <ATen/ATen.h>

#include <numeric>

namespace weft {

namespace {

using Stack = std::vector<c10::IValue>;
using Tensors = std::vector<at::Tensor>;

/// Calls a function with every tensor among the arguments, which it may replace.
template <class Visit>
void visit_tensors(const OperatorSchema& schema, Stack& arguments, Visit visit) {
  using Kind = OperatorSchema::ArgumentKind;
  for (size_t i = 0; i < arguments.size(); ++i) {
    auto& value = arguments[i];
    if (schema.arguments[i] == Kind::Tensor && value.isTensor() && value.toTensor().defined()) {
      at::Tensor tensor = value.toTensor();
      visit(i, tensor);
      value = tensor;
    } else if (schema.arguments[i] == Kind::TensorList && !value.isNone()) {
      auto list = value.toTensorVector();
      for (auto& tensor : list) {
        visit(i, tensor);
      }
      value = list;
    } else if (schema.arguments[i] == Kind::OptionalTensorList && !value.isNone()) {
      auto list = value.toOptionalTensorList().copy();
      for (size_t k = 0; k < list.size(); ++k) {
        const std::optional<at::Tensor> element = list.get(k);
        if (element && element->defined()) {
          auto tensor = *element;
          visit(i, tensor);
          list.set(k, tensor);
        }
      }
      value = list;
    }
  }
}

/// Terms that have nothing to do with the value, so that a strategy which takes a term for the value is found out.
Tensors terms_of(const at::Tensor& value, ReduceOp op, int64_t ranks) {
  Tensors terms;
  auto rest = op == ReduceOp::Avg ? value * ranks : value.clone();
  for (int64_t r = 0; r < ranks; ++r) {
    if (op == ReduceOp::Max || op == ReduceOp::Min) {
      // One rank has the value, the others something smaller (larger); which one differs by element.
      const auto position = at::arange(value.numel(), at::kLong).reshape(value.sizes());
      const auto is_lesser = (position + r).remainder(ranks).ne(0).to(value.scalar_type());
      terms.push_back(op == ReduceOp::Max ? value - is_lesser * (r + 1) : value + is_lesser * (r + 1));
    } else if (r + 1 == ranks) {
      terms.push_back(rest);
    } else if (op == ReduceOp::Product) {
      const bool divides = value.is_floating_point() || value.is_complex();
      terms.push_back(at::full_like(value, divides ? 2 : 1));
      rest = divides ? rest / 2 : rest;
    } else {
      const auto position = at::arange(value.numel(), at::kLong).reshape(value.sizes());
      terms.push_back(((position * 7 + r * 3).remainder(11) - 4).to(value.scalar_type()));
      rest = rest - terms.back();
    }
  }
  return terms;
}

bool has_terms(const at::Tensor& value, ReduceOp op) {
  switch (op) {
    case ReduceOp::Avg:
      return value.is_floating_point();
    case ReduceOp::Max:
    case ReduceOp::Min:
      return !value.is_complex() && value.scalar_type() != at::kBool;
    default:
      return value.scalar_type() != at::kBool;
  }
}

at::Tensor reduced(const Tensors& terms, ReduceOp op) {
  auto result = terms[0];
  for (size_t r = 1; r < terms.size(); ++r) {
    switch (op) {
      case ReduceOp::Sum:
      case ReduceOp::Avg:
        result = terms[r].scalar_type() == at::kBool ? result.logical_or(terms[r]) : result + terms[r];
        break;
      case ReduceOp::Max:
        result = at::maximum(result, terms[r]);
        break;
      case ReduceOp::Min:
        result = at::minimum(result, terms[r]);
        break;
      case ReduceOp::Product:
        result = result * terms[r];
        break;
    }
  }
  return op == ReduceOp::Avg ? result / static_cast<int64_t>(terms.size()) : result;
}

/// How a tensor differs from what it should be; empty if it does not, up to rounding.
std::string difference(const at::Tensor& actual, const at::Tensor& expected) {
  if (actual.sizes() != expected.sizes()) {
    return c10::str(" must have the shape ", expected.sizes(), ", but got ", actual.sizes());
  }
  if (actual.scalar_type() != expected.scalar_type()) {
    return c10::str(" must have the dtype ", expected.scalar_type(), ", but got ", actual.scalar_type());
  }
  if (expected.numel() == 0) {
    return {};
  }
  const bool rounds = expected.is_floating_point() || expected.is_complex();
  const auto wide = expected.is_complex() ? at::kComplexDouble : rounds ? at::kDouble : at::kLong;
  const auto is = actual.to(wide).flatten();
  const auto should_be = expected.to(wide).flatten();
  const auto is_coarse = expected.element_size() <= 2;
  const double tolerance = rounds ? (is_coarse ? 3e-2 : 1e-4) : 0;
  const auto scale = rounds ? should_be.abs().nan_to_num(0, 0, 0).amax().item<double>() : 0.0;
  const auto equal = at::isclose(is, should_be, tolerance, tolerance * std::min(scale, 1.0), /*equal_nan=*/true);
  if (equal.all().item<bool>()) {
    return {};
  }
  auto place = equal.logical_not().nonzero()[0].item<int64_t>();
  const auto value = is[place];
  const auto wanted = should_be[place];
  std::vector<int64_t> index(expected.dim());
  for (auto d = expected.dim(); d-- > 0; place /= expected.size(d)) {
    index[d] = place % expected.size(d);
  }
  return c10::str(" must be ", wanted.item(), " at ", c10::IntArrayRef(index), ", but got ", value.item());
}

class Check {
 public:
  Check(const c10::OperatorHandle& op, const Stack& arguments, int64_t ranks)
      : op_(op),
        traits_(op),
        arguments_(arguments),
        ranks_(ranks),
        mesh_(DeviceMesh::parse(c10::str("mesh(n=", ranks, ")"))) {}

  std::vector<CheckedStrategy> run() {
    read_operands();
    const auto rule = find_rule();
    expected_ = results_of(arguments_);
    std::vector<CheckedStrategy> checked;
    for (const auto& strategy : all_strategies(rule, specs_)) {
      if (can_be_tried(strategy)) {
        checked.push_back({text_of(strategy), problem_of(rule, strategy)});
      }
    }
    return checked;
  }

 private:
  void read_operands() {
    ranges_.assign(arguments_.size(), {0, 0});
    visit_tensors(traits_.schema, arguments_, [&](size_t argument, const at::Tensor& tensor) {
      TORCH_CHECK_VALUE(
          !traits_.schema.is_out[argument], "[check_rule] an operator without out= arguments is required, but got ",
          op_.schema(), ". Check the functional form.");
      auto& range = ranges_[argument];
      range = {range.count == 0 ? static_cast<int64_t>(globals_.size()) : range.begin, range.count + 1};
      globals_.push_back(tensor);
      specs_.push_back(TensorSpec::make(mesh_, replicated(mesh_), tensor.sizes(), tensor.scalar_type()));
      is_written_.push_back(traits_.schema.writes(static_cast<int64_t>(argument)));
    });
  }

  Rule find_rule() const {
    TORCH_CHECK_VALUE(
        traits_.rule != nullptr && !traits_.rule->per_element,
        "[check_rule] an operator with a rule is required, but got ", op_.operator_name(),
        ", which runs on replicated tensors. Register one with register_sharding.");
    std::vector<Operand> operands;
    for (const auto& spec : specs_) {
      operands.push_back({spec->sizes(), spec->dtype(), spec.get()});
    }
    auto rule = traits_.rule->rule(OpCall(op_.schema(), arguments_, operands, ranges_));
    TORCH_CHECK_VALUE(
        rule && !rule->lookup, "[check_rule] arguments that the rule of ", op_.operator_name(),
        " applies to are required, but got others (", shapes(), "), for which the operands are replicated.");
    return *rule;
  }

  std::string shapes() const {
    std::string text;
    for (const auto& tensor : globals_) {
      text += c10::str(text.empty() ? "" : " ", tensor.sizes());
    }
    return text;
  }

  /// What the call returns, then what it writes to.
  Tensors results_of(Stack stack) const {
    Tensors written;
    size_t next = 0;
    visit_tensors(traits_.schema, stack, [&](size_t /*argument*/, at::Tensor& tensor) {
      if (is_written_[next++]) {
        tensor = tensor.clone();
        written.push_back(tensor);
      }
    });
    op_.callBoxed(stack);
    Tensors results;
    for (const auto& value : stack) {
      if (value.isTensor()) {
        results.push_back(value.toTensor());
      } else if (value.isTensorList()) {
        const auto list = value.toTensorVector();
        results.insert(results.end(), list.begin(), list.end());
      }
    }
    results.insert(results.end(), written.begin(), written.end());
    return results;
  }

  bool can_be_tried(const Strategy& strategy) const {
    for (size_t i = 0; i < globals_.size(); ++i) {
      const auto& placement = strategy.inputs[i][0];
      if (placement.is_partial() && !has_terms(globals_[i], placement.reduce_op())) {
        return false;
      }
    }
    return true;
  }

  std::string problem_of(const Rule& rule, const Strategy& strategy) const {
    auto layouts = strategy.outputs;
    for (size_t i = 0; i < globals_.size(); ++i) {
      if (is_written_[i]) {
        layouts.push_back(strategy.inputs[i]);
      }
    }
    if (layouts.size() != expected_.size()) {
      return c10::str("the rule has ", layouts.size(), " outputs, but the operator gave ", expected_.size());
    }
    std::vector<Tensors> results; // by rank
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      try {
        results.push_back(results_of(local_arguments(rule, strategy, rank)));
      } catch (const c10::Error& error) {
        return c10::str("rank ", rank, " raises: ", error.what_without_backtrace());
      } catch (const std::exception& error) {
        return c10::str("rank ", rank, " raises: ", error.what());
      }
    }
    for (size_t o = 0; o < expected_.size(); ++o) {
      Tensors locals;
      for (const auto& of_rank : results) {
        locals.push_back(of_rank[o]);
      }
      if (auto problem = output_problem(locals, expected_[o], layouts[o]); !problem.empty()) {
        return c10::str("output ", o, problem);
      }
    }
    return {};
  }

  std::string output_problem(const Tensors& locals, const at::Tensor& expected, const Layout& layout) const {
    if (!expected.defined()) {
      return {};
    }
    if (layout[0].is_shard() && layout[0].dim() >= expected.dim()) {
      return c10::str(" has ", expected.dim(), " dims, so that it cannot be ", layout[0].to_string());
    }
    for (size_t rank = 0; rank < locals.size(); ++rank) {
      const bool is_term = layout[0].is_partial();
      const auto should_be =
          is_term ? expected : local_tensor_of(expected, layout, {ranks_}, {static_cast<int64_t>(rank)});
      const bool has_shape = locals[rank].sizes() == should_be.sizes();
      if (const auto text = is_term && has_shape ? std::string() : difference(locals[rank], should_be); !text.empty()) {
        return c10::str(" of rank ", rank, text);
      }
    }
    if (layout[0].is_partial()) {
      const auto text = difference(reduced(locals, layout[0].reduce_op()).to(expected.scalar_type()), expected);
      return text.empty() ? text : " reduced over the ranks" + text;
    }
    return {};
  }

  Stack local_arguments(const Rule& rule, const Strategy& strategy, int64_t rank) const {
    auto stack = arguments_;
    size_t next = 0;
    visit_tensors(traits_.schema, stack, [&](size_t /*argument*/, at::Tensor& tensor) {
      const auto& layout = strategy.inputs[next++];
      tensor = layout[0].is_partial() ? terms_of(tensor, layout[0].reduce_op(), ranks_)[rank]
                                      : local_tensor_of(tensor, layout, {ranks_}, {rank}).clone();
    });
    for (size_t a = 0; a < rule.size_arguments.size(); ++a) {
      const auto& argument = rule.size_arguments[a];
      const auto shape = local_shape_and_offset(argument.sizes, strategy.size_arguments[a], {ranks_}, {rank}).shape;
      auto& value = stack[*op_.schema().argumentIndexWithName(argument.name)];
      value = value.isList() ? c10::IValue(std::vector<int64_t>(shape.begin(), shape.end())) : c10::IValue(shape[0]);
    }
    return stack;
  }

  static std::string text_of(const Strategy& strategy) {
    std::string text;
    for (const auto& layout : strategy.inputs) {
      text += layout[0].to_string() + " ";
    }
    text += "->";
    for (const auto& layout : strategy.outputs) {
      text += " " + layout[0].to_string();
    }
    return text;
  }

  const c10::OperatorHandle& op_;
  OperatorTraits traits_;
  Stack arguments_;
  int64_t ranks_;
  DeviceMesh mesh_;
  std::vector<OpCall::Range> ranges_;
  Tensors globals_;
  std::vector<SpecPtr> specs_;
  std::vector<bool> is_written_; // by operand
  Tensors expected_;
};

} // namespace

std::vector<CheckedStrategy> check_rule(
    const c10::OperatorHandle& op,
    const std::vector<c10::IValue>& arguments,
    int64_t ranks) {
  TORCH_CHECK_VALUE(ranks > 1, "[check_rule] two ranks or more are required, but got ", ranks, ".");
  const at::NoGradGuard no_gradients;
  return Check(op, arguments, ranks).run();
}

} // namespace weft
