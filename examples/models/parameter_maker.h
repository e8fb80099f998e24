#pragma once

#include <weft/weft.h>

#include <torch/types.h>

#include <optional>

namespace models {

/// Makes the parameters of a model, in the order in which it asks for them: the same random values whoever makes them, on
/// one device as plain tensors, on a mesh as distributed ones. That is all a model has to know of a mesh.
///
///   Decoder plain(sizes, ParameterMaker());
///   Decoder sharded(sizes, ParameterMaker(mesh));
class ParameterMaker {
 public:
  explicit ParameterMaker(std::optional<weft::DeviceMesh> mesh = std::nullopt);

  /// Normally distributed around 0. On a mesh every rank draws all values and keeps its part: nothing is sent.
  torch::Tensor normal(c10::IntArrayRef shape, double deviation, const weft::Layout& layout);
  torch::Tensor ones(c10::IntArrayRef shape, const weft::Layout& layout);
  torch::Tensor zeros(c10::IntArrayRef shape, const weft::Layout& layout);

 private:
  torch::Tensor place(const torch::Tensor& whole, const weft::Layout& layout) const;

  std::optional<weft::DeviceMesh> mesh_;
  at::Generator generator_;
};

} // namespace models
