#include "weft/overlap/fused_matmul.h"

#include "weft/core/dtype_text.h"
#include "weft/core/shard_math.h"
#include "weft/overlap/chunk_matmul.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

namespace weft {

namespace {

constexpr const char* kGather = "all_gather_matmul";
constexpr const char* kScatter = "matmul_reduce_scatter";

void check_dim_and_chunks(const char* where, int64_t dim, int64_t ndim, int64_t chunks) {
  TORCH_CHECK_VALUE(dim >= 0 && dim < ndim, "[", where, "] a dim in [0, ", ndim, ") is required, but got ", dim, ".");
  TORCH_CHECK_VALUE(chunks >= 1, "[", where, "] at least one chunk is required, but got ", chunks, ".");
}

void check_input(const char* where, const char* what, const at::Tensor& input) {
  TORCH_CHECK_VALUE(
      input.dim() >= 2, "[", where, "] ", what, " of at least two dims is required, but got ", input.sizes(), ".");
}

void check_same_dtype(const char* where, const at::Tensor& first, const at::Tensor& tensor) {
  TORCH_CHECK_TYPE(
      tensor.scalar_type() == first.scalar_type() && tensor.device() == first.device(), "[", where,
      "] all tensors must have one dtype and device, but got ", dtype_text(first.scalar_type()), " on ", first.device(),
      " and ", dtype_text(tensor.scalar_type()), " on ", tensor.device(), ". Convert them first.");
}

at::Tensor bias_at(Biases biases, size_t i) {
  return biases.empty() ? at::Tensor() : biases[i];
}

/// A sum of products that are added one by one. A sum of 16-bit products is kept in f32, so that it is rounded once.
class ProductSum {
 public:
  ProductSum(const at::Tensor& output, const at::Tensor& bias, bool has_one_term)
      : output_(output),
        bias_(bias),
        total_(
            !has_one_term && at::isReducedFloatingType(output.scalar_type())
                ? at::empty(output.sizes(), output.options().dtype(at::kFloat))
                : output) {}

  void add(const at::Tensor& input, const at::Tensor& other) {
    if (total_.is_same(output_)) {
      multiply_into(output_, input, other, is_first_ ? bias_ : at::Tensor(), !is_first_);
    } else {
      multiply_into(output_, input, other, {}, /*adds=*/false);
      is_first_ ? total_.copy_(output_) : total_.add_(output_);
    }
    is_first_ = false;
  }

  void finish() {
    if (is_first_) {
      bias_.defined() ? output_.copy_(bias_) : output_.zero_(); // of no terms
    } else if (!total_.is_same(output_)) {
      output_.copy_(bias_.defined() ? total_.add_(bias_) : total_);
    }
  }

 private:
  at::Tensor output_;
  at::Tensor bias_;
  at::Tensor total_;
  bool is_first_ = true;
};

/// Rows are gathered: the product of each chunk is a slice of the output.
void gather_rows(
    Group& group,
    const at::Tensor& shard,
    at::TensorList others,
    Biases biases,
    const ChunkedDim& chunked,
    const GatheredMatmul& result) {
  gather_in_chunks(group, shard, chunked, result.gathered, [&](const Chunk& at, const at::Tensor& values) {
    for (size_t i = 0; i < others.size(); ++i) {
      const auto target = result.outputs[i].narrow(chunked.dim, at.begin, at.length);
      multiply_into(target, values, others[i], bias_at(biases, i), /*adds=*/false);
    }
  });
}

/// The inner dim is gathered: the product of each chunk is added to the full output.
void gather_inner(
    Group& group,
    const at::Tensor& shard,
    at::TensorList others,
    Biases biases,
    const ChunkedDim& chunked,
    const GatheredMatmul& result) {
  std::vector<ProductSum> sums;
  for (size_t i = 0; i < others.size(); ++i) {
    sums.emplace_back(result.outputs[i], bias_at(biases, i), /*has_one_term=*/group.size() == 1);
  }
  gather_in_chunks(group, shard, chunked, result.gathered, [&](const Chunk& at, const at::Tensor& values) {
    for (size_t i = 0; i < others.size(); ++i) {
      sums[i].add(values, others[i].narrow(0, at.begin, at.length));
    }
  });
  for (auto& sum : sums) {
    sum.finish();
  }
}

} // namespace

ChunkedDim checked_gather_dim(
    const char* where,
    const Group& group,
    const at::Tensor& shard,
    const GatherMatmulOptions& options) {
  check_input(where, "a shard", shard);
  check_dim_and_chunks(where, options.dim, shard.dim(), options.chunks);
  const auto length = shard.size(options.dim);
  const auto size = options.size.value_or(length * group.size());
  const auto expected = chunk(size, group.size(), group.rank()).length;
  TORCH_CHECK_VALUE(
      expected == length, "[", where, "] member ", group.rank(), " of ", group.to_string(), " holds ", expected,
      " of the ", size, " indices of dim ", options.dim, ", but got a shard of ", shard.sizes(),
      ". Divide the dim as torch.chunk does.");
  return {options.dim, size, options.chunks};
}

ChunkedDim checked_scatter_dim(const char* where, c10::IntArrayRef product_sizes, const MatmulScatterOptions& options) {
  check_dim_and_chunks(where, options.dim, static_cast<int64_t>(product_sizes.size()), options.chunks);
  TORCH_CHECK_VALUE(
      options.op == ReduceOp::Sum || options.op == ReduceOp::Avg, "[", where,
      "] the reduction must be sum or avg, but got ", to_string(options.op), ".");
  return {options.dim, product_sizes[options.dim], options.chunks};
}

void check_other(const char* where, const at::Tensor& other, int64_t inner, const at::Tensor& bias) {
  TORCH_CHECK_VALUE(
      other.dim() == 2 && other.size(0) == inner, "[", where, "] an other of [", inner,
      ", columns] is required, but got ", other.sizes(), ".");
  TORCH_CHECK_VALUE(
      !bias.defined() || (bias.dim() == 1 && bias.size(0) == other.size(1)), "[", where, "] a bias of [", other.size(1),
      "] is required, one number per column of the other, but got ", bias.sizes(), ".");
}

GatheredMatmul all_gather_matmul(
    Group& group,
    const at::Tensor& shard,
    at::TensorList others,
    Biases biases,
    const GatherMatmulOptions& options) {
  at::AutoDispatchBelowADInplaceOrView guard;
  const auto chunked = checked_gather_dim(kGather, group, shard, options);
  TORCH_CHECK_VALUE(!others.empty(), "[", kGather, "] at least one other is required, but got none.");
  TORCH_CHECK_VALUE(
      biases.empty() || biases.size() == others.size(), "[", kGather,
      "] as many biases as others are required, or none, but got ", biases.size(), " for ", others.size(), ".");
  const auto last = shard.dim() - 1;
  const auto global_sizes = with_size(shard.sizes(), chunked.dim, chunked.size);
  GatheredMatmul result;
  for (size_t i = 0; i < others.size(); ++i) {
    const auto bias = bias_at(biases, i);
    check_other(kGather, others[i], global_sizes[last], bias);
    check_same_dtype(kGather, shard, others[i]);
    if (bias.defined()) {
      check_same_dtype(kGather, shard, bias);
    }
    result.outputs.push_back(at::empty(with_size(global_sizes, last, others[i].size(1)), shard.options()));
  }
  if (options.keeps_gathered) {
    result.gathered = at::empty(global_sizes, shard.options());
  }
  (chunked.dim == last ? gather_inner : gather_rows)(group, shard, others, biases, chunked, result);
  return result;
}

at::Tensor matmul_reduce_scatter(
    Group& group,
    at::TensorList inputs,
    at::TensorList others,
    const at::Tensor& bias,
    const MatmulScatterOptions& options) {
  at::AutoDispatchBelowADInplaceOrView guard;
  TORCH_CHECK_VALUE(
      !inputs.empty() && inputs.size() == others.size(), "[", kScatter,
      "] as many others as inputs are required, at least one, but got ", others.size(), " for ", inputs.size(), ".");
  const auto& first = inputs[0];
  check_input(kScatter, "an input", first);
  const auto last = first.dim() - 1;
  check_other(kScatter, others[0], first.size(last), bias);
  const auto product_sizes = with_size(first.sizes(), last, others[0].size(1));
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(
        inputs[i].dim() == first.dim() && inputs[i].sizes().slice(0, last) == first.sizes().slice(0, last), "[",
        kScatter, "] all inputs must be alike but for their last dim, but got ", first.sizes(), " and ",
        inputs[i].sizes(), ".");
    check_other(kScatter, others[i], inputs[i].size(last), {});
    TORCH_CHECK_VALUE(
        others[i].size(1) == product_sizes[last], "[", kScatter, "] all others must have as many columns, but got ",
        others[0].sizes(), " and ", others[i].sizes(), ".");
    check_same_dtype(kScatter, first, inputs[i]);
    check_same_dtype(kScatter, first, others[i]);
  }
  if (bias.defined()) {
    check_same_dtype(kScatter, first, bias);
  }
  const auto chunked = checked_scatter_dim(kScatter, product_sizes, options);
  const auto length = chunk(chunked.size, group.size(), group.rank()).length;
  const auto dtype = options.dtype.value_or(first.scalar_type());
  TORCH_CHECK_TYPE(
      c10::isFloatingType(dtype), "[", kScatter, "] a dtype of floating-point numbers is required, but got ",
      dtype_text(dtype), ".");
  const auto output = at::empty(with_size(product_sizes, chunked.dim, length), first.options().dtype(dtype));
  const auto multiply = [&](const Chunk& at, const at::Tensor& target, bool adds) {
    const bool scatters_columns = chunked.dim == last;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto term_bias = i == 0 ? bias : at::Tensor();
      if (scatters_columns) {
        const auto bias_columns = term_bias.defined() ? term_bias.narrow(0, at.begin, at.length) : term_bias;
        multiply_into(target, inputs[i], others[i].narrow(1, at.begin, at.length), bias_columns, adds || i > 0);
      } else {
        multiply_into(target, inputs[i].narrow(chunked.dim, at.begin, at.length), others[i], term_bias, adds || i > 0);
      }
    }
  };
  scatter_in_chunks(group, output, chunked, options.op, [&](const Chunk& at, const at::Tensor& target, bool adds) {
    if (dtype == first.scalar_type()) {
      multiply(at, target, adds);
      return;
    }
    const auto product = at::empty(target.sizes(), first.options());
    multiply(at, product, /*adds=*/false);
    adds ? target.add_(product.to(dtype)) : target.copy_(product);
  });
  return output;
}

} // namespace weft
