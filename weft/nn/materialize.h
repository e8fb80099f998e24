#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <functional>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace weft::nn {

struct MaterializeOptions {
  /// Where plain tensors go; distributed ones go to the device of their mesh.
  c10::Device device = c10::kCPU;
  /// Called for every module, children first; it returns whether it has initialised what the module owns. Where it has
  /// not, or where there is none, reset_parameters does (weft/nn/reset_parameters.h).
  std::function<bool(torch::nn::Module& module)> init_fn = nullptr;
};

/// Gives a module that was built on meta its memory and its values: those that the module would have on one device, bit for
/// bit, if torch were seeded so and all of its modules reset their parameters, children before their parents as
/// constructors run. So for modules whose constructors initialise each parameter once it is
///
///   torch::manual_seed(7);                       auto model = [] { const OnMeta scope; return Decoder(options); }();
///   auto model = Decoder(options);               ...                          // shard its parameters
///                                                materialize(*model, 7);      // the same values
///
/// Each rank draws all random numbers and keeps those of its shards, a chunk at a time: peak memory is the shards and a
/// chunk, and nothing is communicated. Parameters stay the same objects, so that ties, hooks and optimizers keep them;
/// plain ones are put in place by replace_parameter. Modules that have their values already keep them. Raises, with their names, where tensors were left without values.
void materialize(torch::nn::Module& module, uint64_t seed, const MaterializeOptions& options = {});
/// From a generator on the CPU that is in the same state on every rank, and moves on.
void materialize(torch::nn::Module& module, at::Generator generator, const MaterializeOptions& options = {});

/// Gives a distributed tensor on meta memory on the device of its mesh, in place and without values.
void give_memory(const at::Tensor& tensor);

} // namespace weft::nn
