#include "weft/rules/builders.h"
#include "weft/rules/equation.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// beta * input + alpha * (a @ b): the input broadcasts against the product, and must be partial if the product is.
std::optional<Rule> add_product(const OpCall& call, std::string_view equation) {
  auto product = contraction(equation)(call.with(call.operands().slice(1)));
  if (!product || call.operand(0).sizes.size() > product->outputs[0].size()) {
    return std::nullopt;
  }
  auto rule = std::move(*product);
  std::vector<Rule::Factor> output;
  for (const auto& dim : rule.outputs[0]) {
    output.push_back(dim[0]);
  }
  rule.inputs.insert(rule.inputs.begin(), broadcast_dims(rule, output, call.operand(0).sizes));
  rule.linear = {{0, 1}, {0, 2}};
  rule.added = {0};
  return rule;
}

/// The activation is not linear: its value at a sum is not the sum of its values at the terms. So nothing may be
/// partial, and the reduced factor must not be sharded.
std::optional<Rule> add_product_with_activation(const OpCall& call) {
  auto rule = add_product(call, "mk,kn->mn");
  if (rule) {
    rule->unsharded = {rule->inputs[1][1][0]};
    rule->added.clear();
    rule->linear.clear();
  }
  return rule;
}

/// (..., k) times (n, k) or (k), plus a bias that broadcasts against the product. The weight is stored as in
/// torch.nn.Linear.
std::optional<Rule> linear_rule(const OpCall& call) {
  if (call.operand(0).dim() == 0 || call.operand(1).dim() == 0) {
    return std::nullopt;
  }
  Rule rule;
  auto output = own_factors(rule, call.operand(0).sizes);
  rule.inputs.push_back(output);
  const auto contracted = output.back();
  output.pop_back();
  rule.inputs.push_back({contracted});
  if (call.operand(1).dim() > 1) {
    output.push_back({rule.add_factor(call.operand(1).sizes[0])});
    rule.inputs[1].insert(rule.inputs[1].begin(), output.back());
  }
  rule.outputs.push_back(output);
  rule.linear = {{0}, {1}};
  if (call.operands().size() > 2) {
    std::vector<Rule::Factor> factors;
    for (const auto& dim : output) {
      factors.push_back(dim[0]);
    }
    if (call.operand(2).sizes.size() > factors.size()) {
      return std::nullopt;
    }
    rule.inputs.push_back(broadcast_dims(rule, factors, call.operand(2).sizes));
    rule.added = {2};
    rule.linear = {{0, 2}, {1, 2}};
  }
  return rule;
}

/// Batch dims broadcast; vectors lack the outer dim.
Rule matmul_rule(const OpCall& call) {
  Rule rule;
  const auto& a = call.operand(0).sizes;
  const auto& b = call.operand(1).sizes;
  const auto batch_rank = std::max<size_t>(std::max(a.size(), b.size()), 2) - 2;
  std::vector<int64_t> batch(batch_rank, 1);
  for (const auto& sizes : {a, b}) {
    for (size_t d = 0; d + 2 < sizes.size(); ++d) {
      auto& size = batch[batch_rank - (sizes.size() - 2) + d];
      size = size == 1 ? sizes[d] : size;
    }
  }
  std::vector<Rule::Factor> factors;
  for (const auto size : batch) {
    factors.push_back(rule.add_factor(size));
  }
  const auto m = rule.add_factor(a.size() > 1 ? a[a.size() - 2] : 1);
  const auto k = rule.add_factor(a.back());
  const auto n = rule.add_factor(b.size() > 1 ? b.back() : 1);
  Rule::Dims output;
  for (const auto factor : factors) {
    output.push_back({factor});
  }
  auto left = broadcast_dims(rule, factors, a.slice(0, a.size() > 2 ? a.size() - 2 : 0));
  auto right = broadcast_dims(rule, factors, b.slice(0, b.size() > 2 ? b.size() - 2 : 0));
  if (a.size() > 1) {
    left.push_back({m});
    output.push_back({m});
  }
  left.push_back({k});
  right.push_back({k});
  if (b.size() > 1) {
    right.push_back({n});
    output.push_back({n});
  }
  rule.inputs = {left, right};
  rule.outputs = {output};
  rule.linear = {{0}, {1}};
  return rule;
}

/// Linear in each single operand; the dim of size three must not be sharded.
std::optional<Rule> cross_rule(const OpCall& call) {
  if (call.operand(0).dim() != call.operand(1).dim() || call.operand(0).dim() == 0) {
    return std::nullopt;
  }
  auto rule = pointwise({{0}, {1}})(call).value();
  rule.unsharded.push_back(rule.outputs[0][call.wrapped_dim("dim", call.operand(0).dim())][0]);
  return rule;
}

/// The rule of the equation. An equation that is no contraction, or has an ellipsis, has no rule but decomposes into
/// other operators.
std::optional<Rule> einsum_rule(const OpCall& call) {
  const auto equation = parse_equation(call.text("equation"));
  return equation && equation->is_contraction() ? contraction(call.text("equation"))(call) : std::nullopt;
}

/// A dim that is sharded by blocks of 16 bytes, because the kernels want rows of a multiple of that; not at all if its size is none.
Rule::Dim in_blocks(Rule& rule, int64_t size, c10::ScalarType dtype) {
  const auto block = 16 / static_cast<int64_t>(c10::elementSize(dtype));
  const bool is_divided = size % block == 0;
  const auto blocks = is_divided ? Rule::Dim{rule.add_factor(size / block)} : Rule::Dim{};
  rule.unsharded.push_back(rule.add_factor(is_divided ? block : size));
  return is_divided ? Rule::Dim{blocks[0], rule.unsharded.back()} : Rule::Dim{rule.unsharded.back()};
}

/// Products of groups of rows or columns, whose ends the third operand holds: (t, k) times (e, k, n), (e, m, k) times
/// (k, t), or (m, t) times (t, n), which gives (e, m, n). The groups are along t, which therefore must not be sharded.
std::optional<Rule> grouped_mm_rule(const OpCall& call) {
  const auto& a = call.operand(0).sizes;
  const auto& b = call.operand(1).sizes;
  if (call.operands().size() != 3 || a.size() + b.size() == 6) {
    return std::nullopt;
  }
  Rule rule;
  const auto unsharded = [&](int64_t size) {
    rule.unsharded.push_back(rule.add_factor(size));
    return Rule::Dim{rule.unsharded.back()};
  };
  const auto blocks = [&](int64_t size) { return in_blocks(rule, size, call.operand(0).dtype); };
  const auto ends = unsharded(call.operand(2).sizes[0]);
  const auto m = a.size() == 3 || b.size() == 2 ? blocks(a[a.size() - 2]) : unsharded(a[0]);
  const auto k = a.size() + b.size() == 4 ? unsharded(a[1]) : blocks(a.back());
  const auto n = a.size() == 3 ? unsharded(b[1]) : blocks(b.back());
  const auto dims_of = [&](size_t ndim, const Rule::Dim& first, const Rule::Dim& second) {
    return ndim == 3 ? Rule::Dims{ends, first, second} : Rule::Dims{first, second};
  };
  rule.inputs = {dims_of(a.size(), m, k), dims_of(b.size(), k, n), {ends}};
  rule.outputs = {dims_of(a.size() + b.size() == 4 ? 3 : 2, m, n)};
  rule.linear = {{0}, {1}};
  return rule;
}

/// Whether a call names its scales in lists, with a recipe for each, as torch.nn.functional.scaled_mm does, and these are no single
/// scale per tensor or line of it, or are stored in an order of their own.
bool has_scales_of_blocks(const OpCall& call) {
  constexpr int64_t kRowwise = 1; // 0 is a scale per tensor; greater numbers are recipes of blocks
  const auto is_of_lines = [&](const char* recipes, const char* swizzles) {
    const auto given = call.integers(recipes);
    const auto orders = call.integers(swizzles);
    return given.size() <= 1 && (given.empty() || given[0] <= kRowwise) &&
        std::all_of(orders.begin(), orders.end(), [](int64_t order) { return order == 0; });
  };
  return !is_of_lines("recipe_a", "swizzle_a") || !is_of_lines("recipe_b", "swizzle_b") ||
      !call.integers("contraction_dim").empty();
}

/// (m, k) times (k, n), of numbers with 8 bits. The left operand has one scale, or one per row, the right operand one scale, or one
/// per column. Scales of blocks have no rule. Terms are summed over k unless the result has 8 bits too.
std::optional<Rule> scaled_mm_rule(const OpCall& call) {
  if (has_scales_of_blocks(call)) {
    return std::nullopt;
  }
  const auto& a = call.operand(0);
  const auto& b = call.operand(1);
  Rule rule;
  const auto m = rule.add_factor(a.sizes[0]);
  const auto k = in_blocks(rule, a.sizes[1], a.dtype);
  const auto n = in_blocks(rule, b.sizes[1], b.dtype);
  rule.filled = {m, k[0], n[0]};
  rule.inputs = {{{m}, k}, {k, n}};
  rule.outputs = {{{m}, n}};
  const auto is_number = [&](int64_t operand) { return c10::multiply_integers(call.operand(operand).sizes) == 1; };
  const std::array<std::vector<int64_t>, 2> per_line = {{{a.sizes[0], 1}, {1, b.sizes[1]}}};
  const std::array<Rule::Dims, 2> lines = {Rule::Dims{{m}, {}}, Rule::Dims{{}, n}};
  for (const int64_t side : {0, 1}) {
    const auto operand = *call.operand_of(side == 0 ? "scale_a" : "scale_b");
    const auto& sizes = call.operand(operand).sizes;
    if (!is_number(operand) && sizes != c10::IntArrayRef(per_line[side])) {
      return std::nullopt;
    }
    rule.inputs.push_back(is_number(operand) ? Rule::Dims(sizes.size()) : lines[side]);
  }
  if (call.has("bias")) {
    rule.inputs.push_back({n});
    rule.added = {*call.operand_of("bias")};
  }
  if (call.has("scale_result")) {
    rule.inputs.emplace_back(call.operand(*call.operand_of("scale_result")).sizes.size());
  }
  const auto dtype = call.dtype("out_dtype", a.dtype);
  if (call.has("scale_result") || !has_terms(dtype)) {
    rule.unsharded.push_back(k[0]);
  }
  return rule;
}

} // namespace

void add_matmul_rules(RuleRegistry& registry) {
  registry.add({"mm"}, contraction("mk,kn->mn"));
  registry.add({"bmm"}, contraction("bmk,bkn->bmn"));
  registry.add({"mv"}, contraction("mk,k->m"));
  registry.add({"dot", "vdot"}, contraction("k,k->"));
  registry.add({"addmm"}, [](const OpCall& call) { return add_product(call, "mk,kn->mn"); });
  registry.add({"baddbmm"}, [](const OpCall& call) { return add_product(call, "bmk,bkn->bmn"); });
  registry.add({"addmv"}, [](const OpCall& call) { return add_product(call, "mk,k->m"); });
  registry.add({"addbmm"}, [](const OpCall& call) { return add_product(call, "bmk,bkn->mn"); });
  registry.add({"addr"}, [](const OpCall& call) { return add_product(call, "m,n->mn"); });
  registry.add({"_addmm_activation"}, add_product_with_activation);
  registry.add({"linalg_cross"}, cross_rule);
  registry.add({"einsum"}, einsum_rule);
  registry.add({"linear"}, linear_rule);
  registry.add({"_grouped_mm"}, grouped_mm_rule);
  registry.add({"_scaled_mm", "_scaled_mm_v2"}, scaled_mm_rule);
  registry.add({"outer", "ger"}, contraction("m,n->mn"));
  registry.add({"matmul", "linalg_matmul"}, matmul_rule);
}

} // namespace weft
