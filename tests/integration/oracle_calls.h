#pragma once

#include "tests/integration/samples.h"
#include "weft/core/device_mesh.h"

namespace weft::testing {

/// What a call gives and the gradients of its inputs, as plain tensors.
struct CallResult {
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> gradients;
  bool has_gradients = false; // or else the operator has no derivative
};

CallResult on_one_device(const Sample& sample);

/// The same call on inputs of these layouts, results gathered. On every rank of the mesh.
CallResult distributed(
    const Sample& sample,
    const DeviceMesh& mesh,
    const std::vector<Layout>& layouts,
    bool with_gradients);

/// How the first result that is wrong differs; empty where all are right.
std::string difference(const CallResult& actual, const CallResult& expected);

bool is_same(const at::Tensor& actual, const at::Tensor& expected);

/// The placements that an input may have on a mesh dim. Truth values have no terms, integers no average.
std::vector<Placement> input_placements(const at::Tensor& input, c10::ArrayRef<ReduceOp> partial_ops);

/// Every combination of layouts for the inputs; where there are more than `most`, a fixed selection.
std::vector<std::vector<Layout>> combinations(
    const Sample& sample,
    int64_t mesh_ndim,
    c10::ArrayRef<ReduceOp> partial_ops,
    size_t most);

std::string to_string(const std::vector<Layout>& layouts);

} // namespace weft::testing
