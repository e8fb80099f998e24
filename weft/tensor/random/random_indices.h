#pragma once

#include "weft/core/tensor_spec.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace weft {

/// The global indices (row-major in the global shape, or in that of its dims in another order) of the elements a rank holds, in the row-major order of its local
/// tensor: `rows` times the same runs, each row from another begin. Dims at the end that a rank holds whole are part of
/// the row.
///
///   f32[6,4] @ mesh(d0=2) {S(0)} on rank 1:   1 row from 0 of the run [12, 24)
///   f32[6,4] @ mesh(d0=2) {S(1)} on rank 1:   6 rows from 0, 4, ..., 20 of the run [2, 4)
class LocalIndices {
 public:
  /// Of this rank, which must be in the mesh. What is partial counts as replicated.
  explicit LocalIndices(const TensorSpec& spec);
  /// With the dims in this order, the slowest first; the local tensor has them in the same order.
  LocalIndices(const TensorSpec& spec, c10::IntArrayRef order);

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

  /// The first index where all of them follow one another.
  std::optional<int64_t> single_range() const;

  /// The begins of all rows, and the indices within a row, as tensors of int64.
  at::Tensor row_begins(c10::Device device) const;
  at::Tensor within_row(c10::Device device) const;

 private:
  /// Per dim before the row, what each local index adds to the global one.
  std::vector<std::vector<int64_t>> outer_;
  int64_t rows_ = 1;
  int64_t row_length_ = 1;
  Runs runs_ = {Run{0, 1}};
};

} // namespace weft
