#pragma once

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace weft::nn {

/// Base class of your own modules that own parameters or buffers.
///
///   struct ScaleImpl : torch::nn::Module, weft::nn::Resettable {
///     at::Tensor weight = register_parameter("weight", torch::ones({8}));
///     void reset_parameters() override { torch::nn::init::ones_(weight); }
///   };
class Resettable {
 public:
  virtual ~Resettable() = default;
  virtual void reset_parameters() = 0;
};

/// Initialises the tensors that the module owns, as its constructor does after its children are made. Supports the
/// modules of torch::nn and those that are Resettable; returns false for others and leaves them unchanged.
bool reset_parameters(torch::nn::Module& module);

} // namespace weft::nn
