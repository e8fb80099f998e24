#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <string>
#include <variant>

namespace weft::nn {

/// A field of an optimizer's options, or of what it has of a parameter.
struct OptimizerField {
  const char* name;
  std::variant<double*, int64_t*, bool*, std::tuple<double, double>*, at::Tensor*> value;
};

/// The fields of one of torch's classes of optimizers, which say in C++ no more than each its own.
struct OptimizerFields {
  const char* class_name;
  std::vector<OptimizerField> (*of_options)(torch::optim::OptimizerOptions&);
  std::vector<OptimizerField> (*of_parameter)(torch::optim::OptimizerParamState&);
  std::unique_ptr<torch::optim::OptimizerParamState> (
      *make)(); // what an optimizer has of a parameter, with undefined tensors
};

/// Raises for an optimizer of another class than Adam, AdamW, SGD, RMSprop and Adagrad.
const OptimizerFields& optimizer_fields(const torch::optim::Optimizer& optimizer);

} // namespace weft::nn
