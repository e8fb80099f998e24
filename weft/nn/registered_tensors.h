#pragma once

#include <torch/nn/module.h>

namespace weft::nn {

/// What a module has registered by itself, to be changed: torch gives copies of these only. Undefined tensors (a bias that
/// was not asked for) are among them.
torch::OrderedDict<std::string, at::Tensor>& registered_parameters(torch::nn::Module& module);
torch::OrderedDict<std::string, at::Tensor>& registered_buffers(torch::nn::Module& module);

} // namespace weft::nn
