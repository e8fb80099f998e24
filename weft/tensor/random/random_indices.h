#pragma once

#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace weft {

/// The global indices of the elements that a rank holds, in the row-major order of its local tensor. An index is
/// row-major in the global shape, or in that shape with its dims in another order. They consist of `rows` rows, which
/// have the same runs relative to different begins. A row includes the trailing dims that are not sharded.
///
///   f32[6,4] @ mesh(d0=2) {S(0)} on rank 1:   1 row from 0 of the run [12, 24)
///   f32[6,4] @ mesh(d0=2) {S(1)} on rank 1:   6 rows from 0, 4, ..., 20 of the run [2, 4)
class LocalIndices {
 public:
  /// The indices of this rank, which must be in the mesh. P counts as R.
  explicit LocalIndices(const TensorSpec& spec);
  /// The indices with the dims in this order, the slowest first; the local tensor has its dims in the same order.
  LocalIndices(const TensorSpec& spec, c10::IntArrayRef order);
  /// The indices that `encoded` made, in a program that has no spec.
  explicit LocalIndices(c10::IntArrayRef encoded);

  /// This rank's indices as a list for LocalIndices: per dim, the slowest first, its global size and its runs.
  static std::vector<int64_t> encoded(const TensorSpec& spec);

  int64_t rows() const {
    return rows_;
  }
  /// In elements that this rank holds.
  int64_t row_length() const {
    return row_length_;
  }
  int64_t row_begin(int64_t row) const;
  /// Relative to the row's begin.
  const Runs& runs() const {
    return runs_;
  }

  /// The first index if all indices are consecutive; else nullopt.
  std::optional<int64_t> single_range() const;

  /// The begins of all rows, and the indices within a row, as tensors of int64.
  at::Tensor row_begins(c10::Device device) const;
  at::Tensor within_row(c10::Device device) const;

 private:
  struct DimRuns {
    int64_t size; // global
    Runs runs;
  };
  explicit LocalIndices(const std::vector<DimRuns>& dims);
  static std::vector<DimRuns> runs_of_dims(const TensorSpec& spec, c10::IntArrayRef order);
  static std::vector<DimRuns> decoded(c10::IntArrayRef encoded);

  /// Per dim outside of the row, what each local index adds to the global index.
  std::vector<std::vector<int64_t>> outer_;
  int64_t rows_ = 1;
  int64_t row_length_ = 1;
  Runs runs_ = {Run{0, 1}};
};

} // namespace weft
