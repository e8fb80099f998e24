#pragma once

#include <torch/nn/module.h>

namespace weft::nn {

/// The tensors that a module has registered itself, as references: torch returns only copies. Undefined tensors (such
/// as an absent bias) are among them.
torch::OrderedDict<std::string, at::Tensor>& registered_parameters(torch::nn::Module& module);
torch::OrderedDict<std::string, at::Tensor>& registered_buffers(torch::nn::Module& module);

} // namespace weft::nn
