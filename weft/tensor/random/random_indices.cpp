#include "weft/tensor/random/random_indices.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <numeric>

namespace weft {

namespace {

c10::DimVector own_order(const TensorSpec& spec) {
  c10::DimVector order(spec.dim());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

} // namespace

LocalIndices::LocalIndices(const TensorSpec& spec) : LocalIndices(spec, own_order(spec)) {}

LocalIndices::LocalIndices(const TensorSpec& spec, c10::IntArrayRef order) : LocalIndices(runs_of_dims(spec, order)) {}

LocalIndices::LocalIndices(c10::IntArrayRef encoded) : LocalIndices(decoded(encoded)) {}

LocalIndices::LocalIndices(const std::vector<DimRuns>& dims) {
  int64_t stride = 1;
  bool in_row = true;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    const auto& [size, runs] = *dim;
    if (in_row) {
      runs_.clear();
      row_length_ = 0;
      for (const auto& run : runs) {
        runs_.push_back({run.begin * stride, run.length * stride});
        row_length_ += run.length * stride;
      }
      in_row = runs.size() == 1 && runs[0].length == size;
    } else {
      std::vector<int64_t> added;
      for (const auto& run : runs) {
        for (int64_t i = 0; i < run.length; ++i) {
          added.push_back((run.begin + i) * stride);
        }
      }
      rows_ *= static_cast<int64_t>(added.size());
      outer_.insert(outer_.begin(), std::move(added));
    }
    stride *= size;
  }
}

std::vector<LocalIndices::DimRuns> LocalIndices::runs_of_dims(const TensorSpec& spec, c10::IntArrayRef order) {
  const auto& mesh = spec.mesh();
  std::vector<DimRuns> dims;
  for (const auto d : order) {
    const auto size = spec.sizes()[d];
    dims.push_back({size, local_runs(size, d, spec.layout(), mesh.shape(), mesh.coordinate())});
  }
  return dims;
}

std::vector<int64_t> LocalIndices::encoded(const TensorSpec& spec) {
  std::vector<int64_t> result;
  for (const auto& [size, runs] : runs_of_dims(spec, own_order(spec))) {
    result.push_back(size);
    result.push_back(static_cast<int64_t>(runs.size()));
    for (const auto& run : runs) {
      result.insert(result.end(), {run.begin, run.length});
    }
  }
  return result;
}

std::vector<LocalIndices::DimRuns> LocalIndices::decoded(c10::IntArrayRef encoded) {
  std::vector<DimRuns> dims;
  for (size_t i = 0; i < encoded.size();) {
    auto& [size, runs] = dims.emplace_back();
    size = encoded[i++];
    for (auto count = encoded[i++]; count > 0; --count, i += 2) {
      runs.push_back({encoded[i], encoded[i + 1]});
    }
  }
  return dims;
}

int64_t LocalIndices::row_begin(int64_t row) const {
  int64_t begin = 0;
  for (auto dim = outer_.rbegin(); dim != outer_.rend(); ++dim) {
    const auto size = static_cast<int64_t>(dim->size());
    begin += (*dim)[row % size];
    row /= size;
  }
  return begin;
}

std::optional<int64_t> LocalIndices::single_range() const {
  return rows_ == 1 && runs_.size() == 1 ? std::optional(row_begin(0) + runs_[0].begin) : std::nullopt;
}

at::Tensor LocalIndices::row_begins(c10::Device device) const {
  const auto options = at::TensorOptions(at::kLong).device(device);
  auto begins = at::zeros({1}, options);
  for (const auto& dim : outer_) {
    begins = (begins.unsqueeze(1) + at::tensor(dim, at::kLong).to(device)).flatten();
  }
  return begins;
}

at::Tensor LocalIndices::within_row(c10::Device device) const {
  const auto options = at::TensorOptions(at::kLong).device(device);
  std::vector<at::Tensor> ranges;
  for (const auto& run : runs_) {
    ranges.push_back(at::arange(run.begin, run.begin + run.length, options));
  }
  return at::cat(ranges);
}

} // namespace weft
