#include "weft/graph/overlap/step_forms.h"

#include "weft/core/shard_math.h"
#include "weft/graph/analysis/local_sizes.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace weft::graph {

namespace {

/// The one tensor dim that the members of a group shard, or why there is none.
struct ShardedDim {
  int64_t dim = 0;
  std::optional<Size> size = {};
  std::string refused = {};
};

ShardedDim refuse(std::string reason) {
  return {.refused = std::move(reason)};
}

/// The mesh dims of a step that have more than one rank.
MeshDims real_dims(const Step& step, const DeviceMesh& mesh) {
  MeshDims dims;
  for (const auto m : step.mesh_dims) {
    if (mesh.size(m) > 1) {
      dims.push_back(m);
    }
  }
  return dims;
}

bool is_empty(const Sizes& sizes) {
  return std::any_of(sizes.begin(), sizes.end(), [](const Size& size) { return size == Size(0); });
}

/// Why a step has no effect, or also an effect on mesh dims outside its group; empty where neither is the case.
std::string idle_reason(const Node& node, const Step& step, const DeviceMesh& mesh) {
  if (mesh.group_size(step.mesh_dims) == 1) {
    return "the group has one member";
  }
  if (is_empty(node.operand(0)->tensor().sizes)) {
    return "the tensor has no elements";
  }
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    const bool is_member = std::find(step.mesh_dims.begin(), step.mesh_dims.end(), m) != step.mesh_dims.end();
    if (!is_member && mesh.size(m) > 1 && step.before[m] != step.after[m]) {
      return c10::str("the placement on ", mesh.name(m), " changes too");
    }
  }
  return {};
}

/// Whether sharding a dim over several mesh dims one after the other gives the same shards as dividing it once, as
/// torch.chunk does, into one chunk per member. It may not if the dim does not divide evenly: 5 over 2 and 2 mesh dims
/// is 2, 1, 1, 1, but torch.chunk gives 2, 2, 1, 0.
bool is_one_chunking(int64_t length, const MeshDims& dims, const DeviceMesh& mesh, int64_t members) {
  for (int64_t member = 0; member < members; ++member) {
    Run run{0, length};
    auto rest = members;
    for (const auto m : dims) {
      rest /= mesh.size(m);
      const auto shard = weft::chunk(run.length, mesh.size(m), member / rest % mesh.size(m));
      run = {run.begin + shard.begin, shard.length};
    }
    const auto wanted = weft::chunk(length, members, member);
    if (run.length != wanted.length || (run.length > 0 && run.begin != wanted.begin)) {
      return false;
    }
  }
  return true;
}

/// The sharding of a dim over the members of a group, where the mesh dims `outer` come first in the shard order.
ShardedDim dim_of_size(
    const Size& size,
    int64_t tensor_dim,
    const MeshDims& outer,
    const MeshDims& group,
    const Layout& layout,
    const DeviceMesh& mesh,
    int64_t members) {
  ShardedDim result{.dim = tensor_dim};
  for (const auto m : outer) {
    if (layout[m].has_unequal_blocks() || layout[m].is_ragged()) {
      return refuse(c10::str("dim ", tensor_dim, " is sharded over ", mesh.name(m), " too, as ", layout[m]));
    }
  }
  const auto outer_ranks = mesh.group_size(outer);
  auto outer_blocks = outer_ranks;
  for (const auto m : outer) {
    outer_blocks *= layout[m].split_factor();
  }
  if (!quotient(size, outer_blocks)) {
    return refuse(c10::str(
        "dim ", tensor_dim, " of size ", size.to_string(), " is sharded over ", mesh.dims_text(outer),
        " too, into shards of different sizes"));
  }
  const auto length = *quotient(size, outer_ranks);
  if (quotient(length, members)) {
    return result;
  }
  if (group.size() > 1 && !(length.is_number() && is_one_chunking(length.number(), group, mesh, members))) {
    return refuse(c10::str(
        "sharding ", length.to_string(), " over ", mesh.dims_text(group),
        " one after the other is not dividing it into ", members));
  }
  result.size = length;
  return result;
}

/// The dim that a step shards or gathers over its group. `sharded` is the layout in which the group shards it, and
/// `unsharded` the one in which it does not.
ShardedDim dim_of_group(
    const Node& node,
    const Step& step,
    const Layout& sharded,
    const Layout& unsharded,
    const DeviceMesh& mesh) {
  const auto group = real_dims(step, mesh);
  const auto tensor_dim = sharded[group[0]].dim();
  for (const auto m : group) {
    if (!sharded[m].is_shard()) {
      return refuse("not all mesh dims of the group shard the tensor");
    }
    if (sharded[m].dim() != tensor_dim) {
      return refuse(c10::str("dims ", tensor_dim, " and ", sharded[m].dim(), " are sharded at once"));
    }
    if (!sharded[m].is_plain_shard()) {
      return refuse(c10::str("the shards of dim ", tensor_dim, " are ", sharded[m].is_ragged() ? "ragged" : "strided"));
    }
  }
  const auto order = effective_shard_order(sharded, tensor_dim, mesh.shape());
  // The mesh dims of a group are in ascending order, and so are its members.
  const auto outer_count = order.size() - group.size();
  if (!std::equal(group.begin(), group.end(), order.begin() + static_cast<int64_t>(outer_count))) {
    return refuse(c10::str(
        "the shards of dim ", tensor_dim, " are in another order than the members of ", mesh.dims_text(group)));
  }
  const MeshDims outer(order.begin(), order.begin() + static_cast<int64_t>(outer_count));
  const auto ndim = node.operand(0)->tensor().dim();
  for (int64_t d = 0; d < ndim; ++d) {
    const auto left = d == tensor_dim ? outer : effective_shard_order(sharded, d, mesh.shape());
    if (effective_shard_order(unsharded, d, mesh.shape()) != left) {
      return refuse(c10::str("dim ", d, " is sharded in another way too"));
    }
  }
  return dim_of_size(
      node.operand(0)->tensor().sizes[tensor_dim], tensor_dim, outer, group, sharded, mesh,
      mesh.group_size(step.mesh_dims));
}

/// The one operation that reduces the terms of the group; nullopt where there are several, or none.
std::optional<ReduceOp> reduce_op_of(const Step& step, const DeviceMesh& mesh) {
  std::optional<ReduceOp> op;
  for (const auto m : real_dims(step, mesh)) {
    if (!step.before[m].is_partial() || (op && *op != step.before[m].reduce_op())) {
      return std::nullopt;
    }
    op = step.before[m].reduce_op();
  }
  return op;
}

constexpr const char* kSeveralReductions = "the terms are reduced in several ways at once";

/// A form with the fields that all forms of a step have; refused where the step has no effect.
template <class Form>
Form form_of(Node& node, Value* Form::*input, const DeviceMesh& mesh) {
  const auto& step = *node.step();
  Form form;
  form.collective = &node;
  form.*input = node.operand(0);
  form.members = mesh.group_size(step.mesh_dims);
  form.group = mesh.dims_text(step.mesh_dims);
  form.refused = idle_reason(node, step, mesh);
  return form;
}

/// Takes the sharded dim and the step's result, or the reason why there is no such dim.
template <class Form>
void take(Form& form, ShardedDim sharded, Value* Form::*output) {
  form.refused = std::move(sharded.refused);
  if (form.refused.empty()) {
    form.dim = sharded.dim;
    form.size = std::move(sharded.size);
    form.*output = form.collective->output();
    form.nodes = {form.collective};
  }
}

} // namespace

Gather gather_of_step(Node& node, const DeviceMesh& mesh) {
  const auto& step = *node.step();
  auto gather = form_of(node, &Gather::shard, mesh);
  if (!gather.refused.empty()) {
    return gather;
  }
  for (const auto m : real_dims(step, mesh)) {
    if (!step.after[m].is_replicate()) {
      gather.refused = c10::str("what is gathered over ", mesh.name(m), " is sharded again");
      return gather;
    }
  }
  take(gather, dim_of_group(node, step, step.before, step.after, mesh), &Gather::full);
  return gather;
}

Scatter scatter_of_step(Node& node, const DeviceMesh& mesh) {
  const auto& step = *node.step();
  auto scatter = form_of(node, &Scatter::full, mesh);
  if (!scatter.refused.empty()) {
    return scatter;
  }
  const auto op = reduce_op_of(step, mesh);
  if (!op) {
    scatter.refused = kSeveralReductions;
    return scatter;
  }
  scatter.reduce_op = to_string(*op);
  take(scatter, dim_of_group(node, step, step.after, step.before, mesh), &Scatter::shard);
  scatter.is_full_kept = scatter.refused.empty() && node.operand(0)->uses().size() > 1;
  return scatter;
}

Reduction reduction_of_step(Node& node, const DeviceMesh& mesh) {
  auto reduction = form_of(node, &Reduction::input, mesh);
  const auto op = reduce_op_of(*node.step(), mesh);
  if (reduction.refused.empty() && !op) {
    reduction.refused = kSeveralReductions;
  }
  if (reduction.refused.empty()) {
    reduction.reduce_op = to_string(*op);
    reduction.result = node.output();
    reduction.nodes = {&node};
  }
  return reduction;
}

} // namespace weft::graph
