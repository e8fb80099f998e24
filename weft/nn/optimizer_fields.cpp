#include "weft/nn/optimizer_fields.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <typeinfo>

namespace weft::nn {

namespace {

namespace optim = torch::optim;
using Fields = std::vector<OptimizerField>;

template <class Options>
Fields options_of_adam(optim::OptimizerOptions& of) {
  auto& options = dynamic_cast<Options&>(of);
  return {
      {"lr", &options.lr()},
      {"betas", &options.betas()},
      {"eps", &options.eps()},
      {"weight_decay", &options.weight_decay()},
      {"amsgrad", &options.amsgrad()}};
}

template <class State>
Fields state_of_adam(optim::OptimizerParamState& of) {
  auto& state = dynamic_cast<State&>(of);
  return {
      {"step", &state.step()},
      {"exp_avg", &state.exp_avg()},
      {"exp_avg_sq", &state.exp_avg_sq()},
      {"max_exp_avg_sq", &state.max_exp_avg_sq()}};
}

Fields options_of_sgd(optim::OptimizerOptions& of) {
  auto& options = dynamic_cast<optim::SGDOptions&>(of);
  return {
      {"lr", &options.lr()},
      {"momentum", &options.momentum()},
      {"dampening", &options.dampening()},
      {"weight_decay", &options.weight_decay()},
      {"nesterov", &options.nesterov()}};
}

Fields state_of_sgd(optim::OptimizerParamState& of) {
  return {{"momentum_buffer", &dynamic_cast<optim::SGDParamState&>(of).momentum_buffer()}};
}

Fields options_of_rmsprop(optim::OptimizerOptions& of) {
  auto& options = dynamic_cast<optim::RMSpropOptions&>(of);
  return {
      {"lr", &options.lr()},
      {"alpha", &options.alpha()},
      {"eps", &options.eps()},
      {"weight_decay", &options.weight_decay()},
      {"momentum", &options.momentum()},
      {"centered", &options.centered()}};
}

Fields state_of_rmsprop(optim::OptimizerParamState& of) {
  auto& state = dynamic_cast<optim::RMSpropParamState&>(of);
  return {
      {"step", &state.step()},
      {"square_avg", &state.square_avg()},
      {"momentum_buffer", &state.momentum_buffer()},
      {"grad_avg", &state.grad_avg()}};
}

Fields options_of_adagrad(optim::OptimizerOptions& of) {
  auto& options = dynamic_cast<optim::AdagradOptions&>(of);
  return {
      {"lr", &options.lr()},
      {"lr_decay", &options.lr_decay()},
      {"weight_decay", &options.weight_decay()},
      {"initial_accumulator_value", &options.initial_accumulator_value()},
      {"eps", &options.eps()}};
}

Fields state_of_adagrad(optim::OptimizerParamState& of) {
  auto& state = dynamic_cast<optim::AdagradParamState&>(of);
  return {{"sum", &state.sum()}, {"step", &state.step()}};
}

template <class State>
std::unique_ptr<optim::OptimizerParamState> made() {
  return std::make_unique<State>();
}

} // namespace

const OptimizerFields& optimizer_fields(const optim::Optimizer& optimizer) {
  static const std::vector<std::pair<const std::type_info*, OptimizerFields>> known = {
      {&typeid(optim::Adam),
       {"Adam", &options_of_adam<optim::AdamOptions>, &state_of_adam<optim::AdamParamState>,
        &made<optim::AdamParamState>}},
      {&typeid(optim::AdamW),
       {"AdamW", &options_of_adam<optim::AdamWOptions>, &state_of_adam<optim::AdamWParamState>,
        &made<optim::AdamWParamState>}},
      {&typeid(optim::SGD), {"SGD", &options_of_sgd, &state_of_sgd, &made<optim::SGDParamState>}},
      {&typeid(optim::RMSprop), {"RMSprop", &options_of_rmsprop, &state_of_rmsprop, &made<optim::RMSpropParamState>}},
      {&typeid(optim::Adagrad), {"Adagrad", &options_of_adagrad, &state_of_adagrad, &made<optim::AdagradParamState>}}};
  for (const auto& [type, fields] : known) {
    if (*type == typeid(optimizer)) {
      return fields;
    }
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "[state_of] Adam, AdamW, SGD, RMSprop or Adagrad of torch::optim is required, but got ",
      c10::demangle(typeid(optimizer).name()), ". Save the tensors of this optimizer by names of your own.");
}

} // namespace weft::nn
