#include "weft/graph/overlap/step_forms.h"

#include "weft/core/shard_math.h"
#include "weft/graph/analysis/local_sizes.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace weft::graph {

namespace {

/// One tensor dim that the members of a group hold pieces of, or why it is not one.
struct Cut {
  int64_t dim = 0;
  std::optional<Size> size = {};
  std::string refused = {};
};

Cut refuse(std::string reason) {
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

/// Why a step has no effect, or none on the mesh dims of its group alone; empty where it has.
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

/// Whether cutting by each of some mesh dims in turn gives what cutting once into as many pieces does. The last ones of
/// the first cut are then shorter or empty, and theirs in turn.
bool is_one_cut(int64_t length, const MeshDims& dims, const DeviceMesh& mesh, int64_t members) {
  for (int64_t member = 0; member < members; ++member) {
    Run run{0, length};
    auto rest = members;
    for (const auto m : dims) {
      rest /= mesh.size(m);
      const auto piece = weft::chunk(run.length, mesh.size(m), member / rest % mesh.size(m));
      run = {run.begin + piece.begin, piece.length};
    }
    const auto wanted = weft::chunk(length, members, member);
    if (run.length != wanted.length || (run.length > 0 && run.begin != wanted.begin)) {
      return false;
    }
  }
  return true;
}

/// How the whole along a dim is cut into the members' pieces, where mesh dims before them cut it already.
Cut cut_of_size(
    const Size& size,
    int64_t tensor_dim,
    const MeshDims& outer,
    const MeshDims& group,
    const Layout& layout,
    const DeviceMesh& mesh,
    int64_t members) {
  Cut result{.dim = tensor_dim};
  const auto outer_parts = mesh.group_size(outer);
  auto outer_pieces = outer_parts;
  for (const auto m : outer) {
    outer_pieces *= layout[m].split_factor();
  }
  if (!quotient(size, outer_pieces)) {
    return refuse(c10::str(
        "dim ", tensor_dim, " of size ", size.to_string(), " is cut by ", mesh.dims_text(outer),
        " too, into pieces that are not all of one size"));
  }
  const auto length = *quotient(size, outer_parts);
  if (quotient(length, members)) {
    return result;
  }
  if (group.size() > 1 && !(length.is_number() && is_one_cut(length.number(), group, mesh, members))) {
    return refuse(c10::str(
        "cutting ", length.to_string(), " by ", mesh.dims_text(group), " in turn is not cutting it into ", members));
  }
  result.size = length;
  return result;
}

/// The cut that the group of a step makes or joins: `cut` is the layout with it, and `whole` the one without.
Cut cut_of_group(const Node& node, const Step& step, const Layout& cut, const Layout& whole, const DeviceMesh& mesh) {
  const auto group = real_dims(step, mesh);
  const auto tensor_dim = cut[group[0]].dim();
  for (const auto m : group) {
    if (!cut[m].is_shard()) {
      return refuse("not all mesh dims of the group cut the tensor");
    }
    if (cut[m].dim() != tensor_dim) {
      return refuse(c10::str("dims ", tensor_dim, " and ", cut[m].dim(), " are cut at once"));
    }
    if (cut[m].split_factor() != 1) {
      return refuse(c10::str("the pieces of dim ", tensor_dim, " are strided"));
    }
  }
  auto cuts = effective_shard_order(cut, tensor_dim, mesh.shape());
  // The mesh dims of a group are in ascending order, and so are its members.
  const auto outer_count = cuts.size() - group.size();
  if (!std::equal(group.begin(), group.end(), cuts.begin() + static_cast<int64_t>(outer_count))) {
    return refuse(c10::str(
        "the pieces of dim ", tensor_dim, " lie in another order than the members of ", mesh.dims_text(group)));
  }
  const MeshDims outer(cuts.begin(), cuts.begin() + static_cast<int64_t>(outer_count));
  const auto rank = node.operand(0)->tensor().dim();
  for (int64_t d = 0; d < rank; ++d) {
    const auto left = d == tensor_dim ? outer : effective_shard_order(cut, d, mesh.shape());
    if (effective_shard_order(whole, d, mesh.shape()) != left) {
      return refuse(c10::str("dim ", d, " is cut in another way too"));
    }
  }
  return cut_of_size(
      node.operand(0)->tensor().sizes[tensor_dim], tensor_dim, outer, group, cut, mesh,
      mesh.group_size(step.mesh_dims));
}

/// The one way in which the group's terms are reduced; nothing where there are several, or none.
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

/// A form with what all have of a step, refused where that has no effect.
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

/// Takes the cut and the step's result, or the reason why it is not one cut.
template <class Form>
void take(Form& form, Cut cut, Value* Form::*output) {
  form.refused = std::move(cut.refused);
  if (form.refused.empty()) {
    form.dim = cut.dim;
    form.size = std::move(cut.size);
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
      gather.refused = c10::str("what is gathered over ", mesh.name(m), " is cut again");
      return gather;
    }
  }
  take(gather, cut_of_group(node, step, step.before, step.after, mesh), &Gather::whole);
  return gather;
}

Scatter scatter_of_step(Node& node, const DeviceMesh& mesh) {
  const auto& step = *node.step();
  auto scatter = form_of(node, &Scatter::whole, mesh);
  if (!scatter.refused.empty()) {
    return scatter;
  }
  const auto op = reduce_op_of(step, mesh);
  if (!op) {
    scatter.refused = kSeveralReductions;
    return scatter;
  }
  scatter.reduce_op = to_string(*op);
  take(scatter, cut_of_group(node, step, step.after, step.before, mesh), &Scatter::piece);
  scatter.is_whole_kept = scatter.refused.empty() && node.operand(0)->uses().size() > 1;
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
