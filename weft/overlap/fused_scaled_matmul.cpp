#include "weft/overlap/fused_scaled_matmul.h"

#include "weft/comm/chunk_views.h"
#include "weft/core/dtype_text.h"
#include "weft/core/shard_math.h"
#include "weft/overlap/chunk_matmul.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/empty.h>

namespace weft {

namespace {

constexpr const char* kScaledGather = "all_gather_scaled_matmul";
constexpr const char* kScaledScatter = "scaled_matmul_reduce_scatter";

at::ScalarType out_dtype_of(const ScaledOther& other, const at::Tensor& input) {
  return other.out_dtype.value_or(input.scalar_type());
}

std::optional<at::Tensor> optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

at::Tensor rows_by_columns(const at::Tensor& tensor) {
  const auto columns = tensor.size(-1);
  return tensor.reshape({columns == 0 ? 0 : tensor.numel() / columns, columns}).contiguous();
}

/// target = input @ other, or target += input @ other. The scale is one number for all rows, or one per row.
void multiply_scaled_into(
    const at::Tensor& target,
    const at::Tensor& input,
    const at::Tensor& input_scale,
    const ScaledOther& other,
    bool adds) {
  const auto scale = input_scale.numel() == 1 ? input_scale : rows_by_columns(input_scale);
  const auto matrix = rows_by_columns(input);
  const auto bias = optional_of(other.bias);
  const auto result_scale = optional_of(other.result_scale);
  if (!adds && target.is_contiguous()) {
    auto rows = *as_matrix(target);
    at::_scaled_mm_out(
        rows, matrix, other.values, scale, other.scale, bias, result_scale, other.out_dtype, other.use_fast_accum);
    return;
  }
  const auto product =
      at::_scaled_mm(
          matrix, other.values, scale, other.scale, bias, result_scale, other.out_dtype, other.use_fast_accum)
          .view(target.sizes());
  adds ? target.add_(product) : target.copy_(product);
}

void check_scaled_other(const char* where, const ScaledOther& other, int64_t inner) {
  check_other(where, other.values, inner, other.bias);
  const auto columns = other.values.size(1);
  TORCH_CHECK_VALUE(
      other.scale.numel() == 1 || other.scale.sizes() == c10::IntArrayRef({1, columns}), "[", where,
      "] a scale of the other of one number or [1, ", columns, "] is required, but got ", other.scale.sizes(), ".");
}

bool is_per_row(const at::Tensor& scale, c10::IntArrayRef sizes) {
  return scale.sizes() == c10::IntArrayRef(with_size(sizes, static_cast<int64_t>(sizes.size()) - 1, 1));
}

/// The scale of the gathered tensor: the given one, or the scales of all members, gathered while chunks are multiplied.
class GatheredScale {
 public:
  GatheredScale(Group& group, const at::Tensor& shard, const at::Tensor& scale, const ChunkedDim& chunked)
      : scale_(scale), dim_(chunked.dim) {
    const auto global_sizes = with_size(shard.sizes(), chunked.dim, chunked.size);
    const bool may_differ = chunked.size % group.size() != 0;
    if (is_per_row(scale, shard.sizes())) {
      is_per_row_ = true;
      gather(group, chunked);
    } else if (scale.numel() == 1 && !(may_differ && scale.dim() >= shard.dim())) {
      is_per_row_ = false;
    } else {
      TORCH_CHECK_VALUE(
          is_per_row(scale, global_sizes), "[", kScaledGather, "] a scale of one number, of one per row of the shard ",
          shard.sizes(), " or of one per row of the gathered tensor ", c10::IntArrayRef(global_sizes),
          " is required, but got ", scale.sizes(), ".");
      is_per_row_ = true;
    }
  }

  at::Tensor of(const Chunk& at) {
    if (!is_per_row_) {
      return scale_;
    }
    arrival_.wait();
    return scale_.narrow(dim_, at.begin, at.length);
  }

 private:
  void gather(Group& group, const ChunkedDim& chunked) {
    const auto gathered = at::empty(with_size(scale_.sizes(), chunked.dim, chunked.size), scale_.options());
    arrival_ = group.all_gather(scale_, chunk_views(gathered, group.size(), chunked.dim));
    scale_ = gathered;
  }

  at::Tensor scale_;
  int64_t dim_;
  bool is_per_row_ = false;
  Pending arrival_;
};

/// The right-hand side of the columns of a chunk.
ScaledOther columns_of(const ScaledOther& other, const Chunk& at) {
  auto result = other;
  result.values = other.values.narrow(1, at.begin, at.length);
  if (other.scale.numel() > 1) {
    result.scale = other.scale.narrow(1, at.begin, at.length).contiguous();
  }
  if (other.bias.defined()) {
    result.bias = other.bias.narrow(0, at.begin, at.length);
  }
  return result;
}

} // namespace

GatheredMatmul all_gather_scaled_matmul(
    Group& group,
    const at::Tensor& shard,
    const at::Tensor& shard_scale,
    c10::ArrayRef<ScaledOther> others,
    const GatherMatmulOptions& options) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto chunked = checked_gather_dim(kScaledGather, group, shard, options);
  const auto last = shard.dim() - 1;
  TORCH_CHECK_VALUE(
      chunked.dim != last, "[", kScaledGather, "] a dim before the last is required, but got ", chunked.dim, " of ",
      shard.sizes(), ". Gather first and multiply then.");
  TORCH_CHECK_VALUE(!others.empty(), "[", kScaledGather, "] at least one other is required, but got none.");
  const auto global_sizes = with_size(shard.sizes(), chunked.dim, chunked.size);
  GatheredMatmul result;
  for (const auto& other : others) {
    check_scaled_other(kScaledGather, other, shard.size(last));
    const auto out_options = shard.options().dtype(out_dtype_of(other, shard));
    result.outputs.push_back(at::empty(with_size(global_sizes, last, other.values.size(1)), out_options));
  }
  if (options.keeps_gathered) {
    result.gathered = at::empty(global_sizes, shard.options());
  }
  GatheredScale scale(group, shard, shard_scale, chunked);
  gather_in_chunks(group, shard, chunked, result.gathered, [&](const Chunk& at, const at::Tensor& values) {
    const auto rows_scale = scale.of(at);
    for (size_t i = 0; i < others.size(); ++i) {
      const auto target = result.outputs[i].narrow(chunked.dim, at.begin, at.length);
      multiply_scaled_into(target, values, rows_scale, others[i], /*adds=*/false);
    }
  });
  return result;
}

at::Tensor scaled_matmul_reduce_scatter(
    Group& group,
    const at::Tensor& input,
    const at::Tensor& input_scale,
    const ScaledOther& other,
    const MatmulScatterOptions& options) {
  at::AutoDispatchBelowADInplaceOrView guard;
  TORCH_CHECK_VALUE(
      input.dim() >= 2, "[", kScaledScatter, "] an input of at least two dims is required, but got ", input.sizes(),
      ".");
  const auto last = input.dim() - 1;
  check_scaled_other(kScaledScatter, other, input.size(last));
  const bool per_row = input_scale.numel() != 1;
  TORCH_CHECK_VALUE(
      !per_row || is_per_row(input_scale, input.sizes()), "[", kScaledScatter,
      "] a scale of one number or of one per row of the input ", input.sizes(), " is required, but got ",
      input_scale.sizes(), ".");
  TORCH_CHECK_VALUE(
      !options.dtype, "[", kScaledScatter, "] the dtype of a scaled product is its out_dtype, but got another, ",
      dtype_text(options.dtype.value_or(at::kFloat)), ".");
  const auto out_dtype = out_dtype_of(other, input);
  TORCH_CHECK_TYPE(
      c10::elementSize(out_dtype) > 1, "[", kScaledScatter, "] an out_dtype of more than 8 bits is required, but got ",
      dtype_text(out_dtype), ".");
  const auto product_sizes = with_size(input.sizes(), last, other.values.size(1));
  const auto chunked = checked_scatter_dim(kScaledScatter, product_sizes, options);
  const auto length = chunk(chunked.size, group.size(), group.rank()).length;
  const auto output = at::empty(with_size(product_sizes, chunked.dim, length), input.options().dtype(out_dtype));
  scatter_in_chunks(group, output, chunked, options.op, [&](const Chunk& at, const at::Tensor& target, bool adds) {
    if (chunked.dim == last) {
      multiply_scaled_into(target, input, input_scale, columns_of(other, at), adds);
      return;
    }
    const auto rows_scale = per_row ? input_scale.narrow(chunked.dim, at.begin, at.length) : input_scale;
    multiply_scaled_into(target, input.narrow(chunked.dim, at.begin, at.length), rows_scale, other, adds);
  });
  return output;
}

} // namespace weft
