#pragma once

#include <weft/weft.h>

#include <torch/types.h>

namespace models {

/// Inputs and the classes to predict for them, in as many rows as the batch has.
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;

  /// The same batch, sharded by rows over the mesh dim dp. Every rank holds the global batch, so nothing is sent.
  Batch distribute(const weft::DeviceMesh& mesh) const;
  Batch to(torch::Device device) const {
    return {inputs.to(device), targets.to(device)};
  }
};

/// The batch of a step, the same on every rank: points, and the quadrant of each.
Batch points(int64_t step, int64_t rows, int64_t dim);
/// Sequences of tokens, in which each follows from the one before, and the tokens that follow.
Batch sequences(int64_t step, int64_t rows, int64_t length, int64_t vocabulary);

} // namespace models
