#include "examples/models/batch.h"

#include <ATen/CPUGeneratorImpl.h>

namespace models {

Batch Batch::distribute(const weft::DeviceMesh& mesh) const {
  weft::Placements by_rows;
  for (const auto& name : mesh.names()) {
    by_rows.push_back(name == "dp" ? weft::Shard(0) : weft::Replicate());
  }
  const auto distribute = [&](const torch::Tensor& global) {
    return weft::distribute_tensor(global, mesh, weft::Layout(by_rows), {.src_data_rank = std::nullopt});
  };
  return {distribute(inputs), distribute(targets)};
}

Batch points(int64_t step, int64_t rows, int64_t dim) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(/*seed=*/step);
  const auto inputs = torch::randn({rows, dim}, generator);
  const auto right = inputs.select(1, 0).gt(0).to(torch::kLong);
  const auto above = inputs.select(1, 1).gt(0).to(torch::kLong);
  return {inputs, 2 * right + above};
}

Batch sequences(int64_t step, int64_t rows, int64_t length, int64_t vocabulary) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(/*seed=*/step);
  std::vector<torch::Tensor> tokens = {torch::randint(vocabulary, {rows}, generator)};
  for (int64_t i = 0; i < length; ++i) {
    tokens.push_back((5 * tokens.back() + 3) % vocabulary);
  }
  const auto all = torch::stack(tokens, 1);
  return {all.narrow(1, 0, length).contiguous(), all.narrow(1, 1, length).contiguous()};
}

} // namespace models
