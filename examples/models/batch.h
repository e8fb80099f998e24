#pragma once

#include <weft/weft.h>

#include <torch/types.h>

namespace models {

/// Inputs and the classes to be told of them, in as many rows as the batch has.
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;

  /// The same batch, cut by rows along the mesh dim dp. Every rank holds it all, so nothing is sent.
  Batch distribute(const weft::DeviceMesh& mesh) const;
  Batch to(torch::Device device) const {
    return {inputs.to(device), targets.to(device)};
  }
};

/// The batch of a step, the same whoever makes it: points, and the quadrant that each lies in.
Batch points(int64_t step, int64_t rows, int64_t dim);
/// Sequences of tokens, in which each follows from the one before, and the tokens that follow.
Batch sequences(int64_t step, int64_t rows, int64_t length, int64_t vocabulary);

} // namespace models
