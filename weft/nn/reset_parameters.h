#pragma once

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace weft::nn {

/// To be derived from by modules of one's own that own parameters or buffers.
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

/// Initialises what the module owns as its constructor does once its children are made. Known are the modules of torch::nn
/// and those that are Resettable; false for others, to which nothing is done.
bool reset_parameters(torch::nn::Module& module);

} // namespace weft::nn
