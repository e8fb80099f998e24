#include "weft/tensor/kernels/kernels.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/move_observer.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

namespace weft {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kBackwardName = "aten::embedding_dense_backward";

/// Whether the gradient is computed from the table's layout: a mesh dim shards the table, and the rows of every rank
/// are contiguous.
bool is_sharded_table(const TensorSpec& table) {
  bool result = false;
  for (int64_t m = 0; m < table.mesh().ndim(); ++m) {
    const auto& placement = table.layout()[m];
    if (placement.is_shard(0) && !placement.is_plain_shard()) {
      return false;
    }
    result = result || (placement.is_shard() && table.mesh().size(m) > 1);
  }
  return result;
}

/// The layout in which a rank needs the output's gradient to compute its shard of the table's gradient: replicated on
/// mesh dims that shard the table's rows, sharded by columns as the table is, and unchanged on other mesh dims.
Layout gradient_layout(const TensorSpec& gradient, const Layout& table) {
  const auto columns = gradient.dim() - 1;
  auto layout = replicated_where(
      gradient.layout(), [&](int64_t m) { return table[m].is_shard() || gradient.layout()[m].is_shard(columns); });
  for (const auto m : table.shard_order(1)) {
    layout = layout.with(m, table[m].along(columns));
  }
  return layout;
}

/// The layout of the positions (indices) that fits an output's gradient of this layout.
Layout position_layout(const Layout& gradient, int64_t columns) {
  return replicated_where(
      gradient, [&](int64_t m) { return gradient[m].is_partial() || gradient[m].is_shard(columns); });
}

/// The layout of the table's gradient: the table's own where a mesh dim shards the table; otherwise partial where the
/// mesh dim shards the positions, because every rank then adds up other terms.
Layout result_layout(const Layout& gradient, const Layout& table) {
  auto layout = table;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    if (!table[m].is_shard()) {
      layout = layout.with(m, gradient[m].is_shard() ? Partial() : gradient[m]);
    }
  }
  return layout;
}

/// The gradient of the table rows on this rank. Positions of other rows and of the padding are added to one extra row,
/// which is dropped.
at::Tensor gradient_of_local_rows(
    const at::Tensor& gradient,
    const at::Tensor& positions,
    const TensorSpec& table,
    int64_t padding,
    const DeviceMesh& mesh,
    c10::IntArrayRef counted_over,
    bool scale_grad_by_freq) {
  const auto held = table.local_shape_and_offset();
  const auto rows = held.shape[0];
  auto own = positions.sub(held.offset[0]);
  auto dropped = own.lt(0).logical_or_(own.ge(rows));
  if (padding >= 0) {
    dropped.logical_or_(positions.eq(padding));
  }
  own.masked_fill_(dropped, rows);
  const auto all = at::embedding_dense_backward(gradient, own, rows + 1, /*padding_idx=*/rows, false);
  auto result = all.narrow(0, 0, rows);
  if (scale_grad_by_freq) {
    auto counts = at::bincount(own.flatten(), {}, rows + 1).narrow(0, 0, rows).to(gradient.scalar_type());
    counts =
        counted_over.empty() ? counts : reduce_implicitly(kBackwardName, counts, mesh, counted_over, ReduceOp::Sum);
    result = result.div_(counts.clamp_min_(1).unsqueeze(1));
  }
  return result;
}

at::Tensor gradient_of_sharded_table(
    const at::Tensor& output_gradient,
    const at::Tensor& indices,
    const TensorSpec& table,
    int64_t padding,
    bool scale_grad_by_freq) {
  const auto& mesh = table.mesh();
  const auto layout = gradient_layout(*as_dtensor(output_gradient)->spec(), table.layout());
  const auto columns = output_gradient.dim() - 1;
  const auto positions_at = position_layout(layout, columns);
  const auto gradient = move_implicitly(kBackwardName, output_gradient, layout);
  const auto positions = move_implicitly(kBackwardName, indices, positions_at);
  MeshDims counted_over;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    if (positions_at[m].is_shard() && mesh.size(m) > 1) {
      counted_over.push_back(m);
    }
  }
  const auto local = gradient_of_local_rows(
      as_dtensor(gradient)->local(), as_dtensor(positions)->local(), table, padding, mesh, counted_over,
      scale_grad_by_freq);
  return make_dtensor(
      local,
      TensorSpec::make(mesh, result_layout(layout, table.layout()), table.sizes(), output_gradient.scalar_type()));
}

at::Tensor distributed(const at::Tensor& tensor, const DeviceMesh& mesh) {
  return is_dtensor(tensor) ? tensor : from_local(tensor, mesh, replicated(mesh));
}

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& weight,
      const at::Tensor& indices,
      int64_t padding,
      bool scale_grad_by_freq,
      bool sparse) {
    const at::AutoDispatchBelowADInplaceOrView by_rule;
    context->save_for_backward({indices});
    // Saves the table's spec and not its values: backward does not read them, so that they may change until then.
    if (const auto* impl = as_dtensor(weight)) {
      context->saved_data["table"] = make_dtensor(AsyncTensor(), impl->spec(), weight.device());
    }
    context->saved_data["rows"] = weight.size(0);
    context->saved_data["padding"] = padding;
    context->saved_data["scale_grad_by_freq"] = scale_grad_by_freq;
    context->saved_data["sparse"] = sparse;
    return at::embedding(weight, indices, padding, scale_grad_by_freq, sparse);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto indices = context->get_saved_variables()[0];
    const auto padding = context->saved_data["padding"].toInt();
    const auto scale_grad_by_freq = context->saved_data["scale_grad_by_freq"].toBool();
    TORCH_CHECK_NOT_IMPLEMENTED(
        !context->saved_data["sparse"].toBool(), "[aten::embedding] sparse gradients are not supported for ",
        "distributed tensors, but got sparse=True. Leave it out: the gradient is dense, with the table's layout.");
    const auto found = context->saved_data.find("table");
    const SpecPtr table = found == context->saved_data.end() ? SpecPtr() : as_dtensor(found->second.toTensor())->spec();
    variable_list results(5);
    const bool uses_operator = at::GradMode::is_enabled() || is_watched();
    results[0] = table && is_sharded_table(*table) && !uses_operator
        ? gradient_of_sharded_table(
              distributed(gradients[0], table->mesh()), distributed(indices, table->mesh()), *table, padding,
              scale_grad_by_freq)
        : at::embedding_dense_backward(
              gradients[0], indices, context->saved_data["rows"].toInt(), padding, scale_grad_by_freq);
    return results;
  }
};

at::Tensor embedding(
    const at::Tensor& weight,
    const at::Tensor& indices,
    c10::SymInt padding,
    bool scale_grad_by_freq,
    bool sparse) {
  const auto rows_of = [&](const at::Tensor& table) {
    return Embedding::apply(table, indices, padding.expect_int(), scale_grad_by_freq, sparse);
  };
  return has_tangent(weight) ? with_tangent(weight, rows_of) : rows_of(weight);
}

} // namespace

void register_embedding(torch::Library& autograd) {
  autograd.impl("embedding", TORCH_FN(embedding));
}

} // namespace weft
