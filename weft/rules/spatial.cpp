#include "weft/rules/builders.h"
#include "weft/rules/named_dims.h"
#include "weft/rules/registry.h"

namespace weft {

namespace {

/// Operators on planes: the last dims are spatial and cannot be sharded; channels and samples may be.
Rule planes(const OpCall& call, size_t spatial_dims) {
  Rule rule;
  const auto& sizes = call.operand(0).sizes;
  auto dims = own_factors(rule, sizes.slice(0, sizes.size() - spatial_dims));
  rule.filled = {dims.back()[0]}; // kernels accept zero samples, but not zero channels
  dims.resize(sizes.size());
  rule.inputs.assign(call.operands().size(), dims);
  rule.outputs.assign(call.schema().returns().size(), dims);
  return rule;
}

RuleFunction max_pool(size_t spatial_dims) {
  return [spatial_dims](const OpCall& call) { return planes(call, spatial_dims); };
}

RuleFunction avg_pool(size_t spatial_dims) {
  return [spatial_dims](const OpCall& call) {
    auto rule = planes(call, spatial_dims);
    rule.linear = {{0}};
    return rule;
  };
}

/// Distributes the gradient, which is the first operand, over the shape of the pooled tensor.
RuleFunction pool_backward(size_t spatial_dims) {
  return [spatial_dims](const OpCall& call) {
    auto rule = planes(call, spatial_dims);
    rule.linear = {{0}};
    rule.unread = operands_by_name(call, {"self"});
    return rule;
  };
}

/// Pads with copies of elements of the plane.
RuleFunction pad(size_t spatial_dims) {
  return [spatial_dims](const OpCall& call) -> std::optional<Rule> {
    if (call.operand(0).dim() <= static_cast<int64_t>(spatial_dims)) {
      return std::nullopt;
    }
    auto rule = planes(call, spatial_dims);
    rule.linear = {{0}};
    rule.unread = call.has("grad_output") ? operands_by_name(call, {"self"}) : std::vector<int64_t>{};
    return rule;
  };
}

/// Converts windows of a plane (..., c, h, w) to columns (..., c * window, positions), or back if not `to_columns`.
std::optional<Rule> columns_rule(const OpCall& call, bool to_columns) {
  const auto& sizes = call.operand(0).sizes;
  const auto plane_dims = to_columns ? size_t{3} : size_t{2};
  const auto window = c10::multiply_integers(call.integers("kernel_size"));
  if (sizes.size() < plane_dims || window == 0) {
    return std::nullopt;
  }
  Rule rule;
  const auto leading = sizes.size() - plane_dims;
  auto plane = own_factors(rule, sizes.slice(0, leading));
  auto columns = plane;
  const auto c = rule.add_factor(to_columns ? sizes[leading] : sizes[leading] / window);
  const auto w = rule.add_factor(window);
  plane.push_back({c});
  plane.resize(leading + 3);
  columns.push_back({c, w});
  columns.resize(leading + 2);
  rule.inputs = {to_columns ? plane : columns};
  rule.outputs = {to_columns ? columns : plane};
  rule.unsharded = {w};
  rule.filled = {c};
  rule.linear = {{0}};
  return rule;
}

Rule upsample_rule(const OpCall& call) {
  auto rule = planes(call, call.operand(0).sizes.size() - 2);
  rule.linear = {{0}};
  if (call.has("input_size")) {
    rule.size_arguments = {{"input_size", call.integers("input_size"), rule.outputs[0]}};
  }
  return rule;
}

/// Converts (..., c * r * r, h, w) to (..., c, h * r, w * r), or back if not `to_space`.
std::optional<Rule> pixel_shuffle_rule(const OpCall& call, int64_t r, bool to_space) {
  Rule rule;
  const auto& sizes = call.operand(0).sizes;
  const auto leading = sizes.size() - 3;
  const auto per_side = to_space ? 1 : r;
  auto deep = own_factors(rule, sizes.slice(0, leading));
  auto wide = deep;
  const auto c = rule.add_factor(to_space ? sizes[leading] / (r * r) : sizes[leading]);
  const auto down = rule.add_factor(r);
  const auto across = rule.add_factor(r);
  const auto h = rule.add_factor(sizes[leading + 1] / per_side);
  const auto w = rule.add_factor(sizes[leading + 2] / per_side);
  for (const auto& dim : {Rule::Dim{c, down, across}, Rule::Dim{h}, Rule::Dim{w}}) {
    deep.push_back(dim);
  }
  for (const auto& dim : {Rule::Dim{c}, Rule::Dim{h, down}, Rule::Dim{w, across}}) {
    wide.push_back(dim);
  }
  rule.inputs = {to_space ? deep : wide};
  rule.outputs = {to_space ? wide : deep};
  rule.unsharded = {down, across};
  if (!to_space) {
    // The kernel does not change the shape of an empty tensor.
    for (size_t f = 0; f < rule.sizes.size(); ++f) {
      rule.filled.push_back(static_cast<Rule::Factor>(f));
    }
  }
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  return rule;
}

/// (n, groups * c, ...) becomes (n, c * groups, ...).
Rule channel_shuffle_rule(const OpCall& call) {
  Rule rule;
  const auto& sizes = call.operand(0).sizes;
  const auto groups = call.integer("groups");
  auto dims = own_factors(rule, sizes);
  const auto group = rule.add_factor(groups);
  const auto c = dims[1][0];
  rule.sizes[c] /= groups;
  dims[1] = {group, c};
  rule.inputs = {dims};
  dims[1] = {c, group};
  rule.outputs = {dims};
  rule.filled = {group};
  rule.size_arguments = {{"groups", {groups}, {{group}}}};
  rule.linear = {{0}};
  rule.linear_in_any_op = true;
  return rule;
}

} // namespace

void add_spatial_rules(RuleRegistry& registry) {
  registry.add({"max_pool1d", "adaptive_max_pool1d"}, max_pool(1));
  registry.add({"max_pool2d", "max_pool2d_with_indices", "adaptive_max_pool2d"}, max_pool(2));
  registry.add({"max_pool3d", "max_pool3d_with_indices", "adaptive_max_pool3d"}, max_pool(3));
  registry.add({"avg_pool1d", "adaptive_avg_pool1d"}, avg_pool(1));
  registry.add({"avg_pool2d", "_adaptive_avg_pool2d", "adaptive_avg_pool2d"}, avg_pool(2));
  registry.add({"avg_pool3d", "_adaptive_avg_pool3d", "adaptive_avg_pool3d"}, avg_pool(3));
  registry.add(
      {"max_pool2d_with_indices_backward", "adaptive_max_pool2d_backward", "avg_pool2d_backward",
       "_adaptive_avg_pool2d_backward"},
      pool_backward(2));
  registry.add(
      {"max_pool3d_with_indices_backward", "adaptive_max_pool3d_backward", "avg_pool3d_backward",
       "_adaptive_avg_pool3d_backward"},
      pool_backward(3));
  registry.add(
      {"upsample_nearest1d",        "upsample_nearest1d_backward",
       "upsample_nearest2d",        "upsample_nearest2d_backward",
       "upsample_nearest3d",        "upsample_nearest3d_backward",
       "_upsample_nearest_exact1d", "_upsample_nearest_exact1d_backward",
       "_upsample_nearest_exact2d", "_upsample_nearest_exact2d_backward",
       "_upsample_nearest_exact3d", "_upsample_nearest_exact3d_backward",
       "upsample_linear1d",         "upsample_linear1d_backward",
       "upsample_bilinear2d",       "upsample_bilinear2d_backward",
       "upsample_bicubic2d",        "upsample_bicubic2d_backward",
       "upsample_trilinear3d",      "upsample_trilinear3d_backward",
       "_upsample_bilinear2d_aa",   "_upsample_bilinear2d_aa_backward",
       "_upsample_bicubic2d_aa",    "_upsample_bicubic2d_aa_backward",
       "_upsample_lanczos2d_aa",    "_upsample_lanczos2d_aa_backward"},
      upsample_rule);
  registry.add(
      {"reflection_pad1d", "reflection_pad1d_backward", "replication_pad1d", "replication_pad1d_backward"}, pad(1));
  registry.add(
      {"reflection_pad2d", "reflection_pad2d_backward", "replication_pad2d", "replication_pad2d_backward"}, pad(2));
  registry.add(
      {"reflection_pad3d", "reflection_pad3d_backward", "replication_pad3d", "replication_pad3d_backward"}, pad(3));
  registry.add({"im2col"}, [](const OpCall& call) { return columns_rule(call, /*to_columns=*/true); });
  registry.add({"col2im"}, [](const OpCall& call) { return columns_rule(call, /*to_columns=*/false); });
  registry.add({"pixel_shuffle"}, [](const OpCall& call) {
    return pixel_shuffle_rule(call, call.integer("upscale_factor"), /*to_space=*/true);
  });
  registry.add({"pixel_unshuffle"}, [](const OpCall& call) {
    return pixel_shuffle_rule(call, call.integer("downscale_factor"), /*to_space=*/false);
  });
  registry.add({"channel_shuffle"}, channel_shuffle_rule);
}

} // namespace weft
