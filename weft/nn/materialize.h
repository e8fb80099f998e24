#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace weft::nn {

struct MaterializeOptions {
  /// The device of plain tensors; distributed tensors use the device of their mesh.
  c10::Device device = c10::kCPU;
  /// Called for every module, children first; returns whether it has initialised the tensors that the module owns. If
  /// it has not, or without an init_fn, reset_parameters is called (weft/nn/reset_parameters.h).
  std::function<bool(torch::nn::Module& module)> init_fn = nullptr;
};

/// Gives a module that was built on meta its memory and its values. They are equal, bit for bit, to the values on one
/// device with the same torch seed, if every module resets its parameters, children before parents as constructors run.
/// So for modules whose constructors initialise each parameter once, both sides are equal:
///
///   torch::manual_seed(7);                       auto model = [] { const OnMeta scope; return Decoder(options); }();
///   auto model = Decoder(options);               ...                          // shard its parameters
///                                                materialize(*model, 7);      // the same values
///
/// Each rank draws all random numbers and keeps those of its shards, one chunk at a time: peak memory is the shards and
/// one chunk, and nothing is communicated. Parameters stay the same objects, so that ties, hooks and optimizers keep
/// them; plain parameters are replaced with replace_parameter. Modules that already have values keep them. Raises with
/// the names of tensors that were left without values.
void materialize(torch::nn::Module& module, uint64_t seed, const MaterializeOptions& options = {});
/// Draws from a CPU generator, which must have the same state on every rank, and advances it.
void materialize(torch::nn::Module& module, at::Generator generator, const MaterializeOptions& options = {});

/// Gives a distributed tensor on meta uninitialized memory on the device of its mesh, in place.
void give_memory(const at::Tensor& tensor);

} // namespace weft::nn
