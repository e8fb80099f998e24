#include "weft/tensor/random/random_stream.h"

#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/random/random_fill.h"
#include "weft/tensor/random/random_indices.h"

#include <ATen/ATen.h>

#include <cstring>
#include <limits>
#include <numeric>

namespace weft {

namespace {

thread_local std::optional<at::Generator> current;

/// Torch draws normal numbers 16 at a time; if the count is not a multiple of 16 it draws the last 16 again. So chunks
/// are multiples of 16, and the last chunk is not shorter than 16 unless it is the only one.
constexpr int64_t kLanes = 16;
constexpr int64_t kChunk = int64_t{1} << 16;
static_assert(kChunk % kLanes == 0);

/// The dims of a tensor in the order of its memory, the slowest first. Torch fills tensors that are not contiguous in
/// this order.
c10::DimVector memory_order(const TensorSpec& spec) {
  c10::DimVector dims(spec.dim());
  std::iota(dims.begin(), dims.end(), 0);
  // The position of a dim of one element does not matter.
  const auto step = [&](int64_t d) {
    return spec.sizes()[d] > 1 ? spec.strides()[d] : std::numeric_limits<int64_t>::max();
  };
  std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) { return step(a) > step(b); });
  return dims;
}

/// Memory for `count` numbers, contiguous only if the tensor is, because torch fills contiguous tensors by another
/// algorithm.
at::Tensor numbers_for(int64_t count, const TensorSpec& spec) {
  const auto step = spec.is_contiguous() ? 1 : 2;
  return at::empty_strided({count}, {step}, at::TensorOptions(spec.dtype()).device(at::kCPU));
}

/// Selects from the numbers of the global tensor, chunk by chunk, those that this rank holds. The local tensor has its
/// elements in the order in which they are drawn, so that the numbers kept of a chunk go to one range of the local
/// tensor.
class Keeper {
 public:
  Keeper(const TensorSpec& spec, c10::IntArrayRef order) {
    if (spec.mesh().is_member()) {
      indices_.emplace(spec, order);
      rows_ = indices_->row_length() == 0 ? 0 : indices_->rows();
    }
  }

  /// Moves the numbers that this rank holds to the front of `numbers` and returns their count. `numbers` are those of
  /// the global elements from `begin` on.
  int64_t keep(const at::Tensor& numbers, int64_t begin) {
    const auto bytes = static_cast<int64_t>(numbers.element_size());
    const auto step = numbers.stride(0) * bytes;
    auto* const data = static_cast<char*>(numbers.data_ptr());
    const auto end = begin + numbers.numel();
    int64_t kept = 0;
    while (row_ < rows_) {
      const auto& run = indices_->runs()[run_];
      const auto row_begin = indices_->row_begin(row_) + run.begin;
      const auto from = std::max(row_begin, begin);
      const auto to = std::min(row_begin + run.length, end);
      if (row_begin >= end) {
        break;
      }
      for (auto i = from; i < to && step != bytes; ++i) {
        std::memcpy(data + (kept + i - from) * step, data + (i - begin) * step, bytes);
      }
      if (to > from && step == bytes) {
        std::memmove(data + kept * bytes, data + (from - begin) * bytes, (to - from) * bytes);
      }
      kept += std::max<int64_t>(to - from, 0);
      if (row_begin + run.length > end) {
        break;
      }
      next();
    }
    return kept;
  }

 private:
  void next() {
    if (++run_ == indices_->runs().size()) {
      run_ = 0;
      ++row_;
    }
  }

  std::optional<LocalIndices> indices_;
  int64_t rows_ = 0;
  int64_t row_ = 0;
  size_t run_ = 0;
};

/// `local` is flat, with the elements of the local tensor in the given order of dims.
void draw_in_chunks(const at::Tensor& local, const TensorSpec& spec, c10::IntArrayRef order, const Draw& draw) {
  const auto total = c10::multiply_integers(spec.sizes());
  const auto memory = numbers_for(std::min(total, kChunk + kLanes - 1), spec);
  Keeper keeper(spec, order);
  int64_t filled = 0;
  for (int64_t begin = 0; begin < total;) {
    const auto left = total - begin;
    const auto numbers = memory.narrow(0, 0, left < kChunk + kLanes ? left : kChunk);
    draw(numbers);
    const auto kept = keeper.keep(numbers, begin);
    local.narrow(0, filled, kept).copy_(numbers.narrow(0, 0, kept));
    filled += kept;
    begin += numbers.numel();
  }
  TORCH_INTERNAL_ASSERT(filled == local.numel() || !spec.mesh().is_member());
}

void draw_at_once(const at::Tensor& local, const TensorSpec& spec, const Draw& draw) {
  const auto global = at::empty_strided(spec.sizes(), spec.strides(), at::TensorOptions(spec.dtype()).device(at::kCPU));
  draw(global);
  const auto distributed = distribute_tensor(global, spec.mesh(), spec.layout(), {.src_data_rank = std::nullopt});
  local.copy_(as_dtensor(distributed)->local());
}

} // namespace

std::optional<at::Generator> stream_generator(const std::optional<at::Generator>& given) {
  if (!current || !given || !given->defined()) {
    return current;
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      given->device().is_cpu(), "[InitializationScope] generators on the CPU are required, but got one on ",
      given->device(), ". Leave it out: values are the same on every device.");
  return given;
}

std::optional<at::Generator> exchange_stream_generator(std::optional<at::Generator> generator) {
  return std::exchange(current, std::move(generator));
}

void fill_from_stream(const DTensorImpl& tensor, Drawn how, const Draw& draw) {
  const auto& spec = *tensor.spec();
  const auto& local = tensor.local();
  check_not_traced(local);
  TORCH_CHECK_VALUE(
      !spec.layout().has_partial(), "[random] a tensor of placements R and S is required, but got ", spec,
      ". Numbers cannot be written to a partial value; redistribute it first.");
  if (local.is_meta()) {
    return;
  }
  if (how == Drawn::AtOnce) {
    draw_at_once(local, spec, draw);
    return;
  }
  const auto order = memory_order(spec);
  const auto ordered = local.permute(order);
  if (ordered.is_contiguous()) {
    draw_in_chunks(ordered.view({-1}), spec, order, draw);
  } else {
    const auto values = at::empty(ordered.sizes(), local.options());
    draw_in_chunks(values.view({-1}), spec, order, draw);
    ordered.copy_(values);
  }
}

} // namespace weft
