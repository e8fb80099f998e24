#include "examples/models/parameter_maker.h"

#include <ATen/CPUGeneratorImpl.h>

namespace models {

ParameterMaker::ParameterMaker(std::optional<weft::DeviceMesh> mesh)
    : mesh_(std::move(mesh)), generator_(at::make_generator<at::CPUGeneratorImpl>(/*seed=*/1)) {}

torch::Tensor ParameterMaker::normal(c10::IntArrayRef shape, double deviation, const weft::Layout& layout) {
  return place(torch::randn(shape, generator_) * deviation, layout);
}

torch::Tensor ParameterMaker::ones(c10::IntArrayRef shape, const weft::Layout& layout) {
  return place(torch::ones(shape), layout);
}

torch::Tensor ParameterMaker::zeros(c10::IntArrayRef shape, const weft::Layout& layout) {
  return place(torch::zeros(shape), layout);
}

torch::Tensor ParameterMaker::place(const torch::Tensor& whole, const weft::Layout& layout) const {
  return mesh_ ? weft::distribute_tensor(whole, *mesh_, layout, {.src_data_rank = std::nullopt}) : whole;
}

} // namespace models
