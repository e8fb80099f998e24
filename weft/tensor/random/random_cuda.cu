#include "weft/tensor/random/random_cuda.h"
#include "weft/tensor/random/random_with_sampler.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>

namespace weft {

namespace {

constexpr int kThreads = 256;
/// Enough to fill any device; the threads loop over the other elements.
constexpr int64_t kMaxBlocks = 4096;

template <class Sampler>
__device__ void sample_block(
    const Sampler& sampler,
    RandomCall call,
    int64_t block,
    typename Sampler::Value (&values)[Sampler::kPerBlock]) {
  const PhiloxBlock random = philox(call.seed, static_cast<uint64_t>(block), call.number);
  sampler(random.words, values);
}

/// A thread uses all numbers of its blocks: a block's elements are kLanes apart, and those of neighbouring threads are
/// adjacent.
template <class T, class Sampler>
__global__ void fill_range(Sampler sampler, RandomCall call, int64_t first, int64_t count, T* out) {
  constexpr int64_t kGroup = kLanes * Sampler::kPerBlock;
  const int64_t first_block = first / kGroup * kLanes;
  const int64_t end_block = (first + count + kGroup - 1) / kGroup * kLanes;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t block = first_block + static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; block < end_block;
       block += stride) {
    typename Sampler::Value values[Sampler::kPerBlock];
    sample_block(sampler, call, block, values);
    const int64_t element = block / kLanes * kGroup + block % kLanes - first;
#pragma unroll
    for (int64_t k = 0; k < Sampler::kPerBlock; ++k) {
      const int64_t position = element + k * kLanes;
      if (position >= 0 && position < count) {
        out[position] = static_cast<T>(values[k]);
      }
    }
  }
}

/// A thread makes the block of one element and uses one of its numbers.
template <class T, class Sampler>
__global__ void fill_rows(
    Sampler sampler,
    RandomCall call,
    const int64_t* row_begins,
    const int64_t* within_row,
    int64_t row_length,
    int64_t count,
    T* out) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += stride) {
    const int64_t element = row_begins[i / row_length] + within_row[i % row_length];
    const int64_t group = element / (kLanes * Sampler::kPerBlock);
    const int64_t wanted = element / kLanes % Sampler::kPerBlock;
    typename Sampler::Value values[Sampler::kPerBlock];
    sample_block(sampler, call, group * kLanes + element % kLanes, values);
    // Selects without indexing, so that the numbers stay in registers.
    typename Sampler::Value value = values[0];
#pragma unroll
    for (int64_t k = 1; k < Sampler::kPerBlock; ++k) {
      value = wanted == k ? values[k] : value;
    }
    out[i] = static_cast<T>(value);
  }
}

unsigned grid_for(int64_t work) {
  return static_cast<unsigned>(std::min((work + kThreads - 1) / kThreads, kMaxBlocks));
}

} // namespace

void fill_random_cuda(const at::Tensor& contiguous, int64_t first, const Distribution& distribution, RandomCall call) {
  const c10::cuda::CUDAGuard guard(contiguous.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const int64_t count = contiguous.numel();
  with_sampler(contiguous.scalar_type(), distribution, [&]<class T>(const auto& sampler) {
    const auto grid = grid_for(count / std::remove_cvref_t<decltype(sampler)>::kPerBlock + 2 * kLanes);
    fill_range<T><<<grid, kThreads, 0, stream>>>(sampler, call, first, count, contiguous.mutable_data_ptr<T>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

void fill_random_cuda(
    const at::Tensor& contiguous,
    const at::Tensor& row_begins,
    const at::Tensor& within_row,
    const Distribution& distribution,
    RandomCall call) {
  const c10::cuda::CUDAGuard guard(contiguous.device());
  const auto stream = c10::cuda::getCurrentCUDAStream().stream();
  const int64_t count = contiguous.numel();
  with_sampler(contiguous.scalar_type(), distribution, [&]<class T>(const auto& sampler) {
    fill_rows<T><<<grid_for(count), kThreads, 0, stream>>>(
        sampler, call, row_begins.const_data_ptr<int64_t>(), within_row.const_data_ptr<int64_t>(), within_row.numel(),
        count, contiguous.mutable_data_ptr<T>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
}

} // namespace weft
