#pragma once

#include "weft/checkpoint/state/save.h"

namespace torch::nn {
class Module;
} // namespace torch::nn
namespace torch::optim {
class Optimizer;
} // namespace torch::optim

namespace weft::nn {

/// The parameters and buffers of a module by name, as weft::save takes them; weft::load fills them in place.
State state_of(const torch::nn::Module& module);

/// What an optimizer has of each parameter, by the parameter's name in the module ("layers.0.weight.exp_avg"), and the options of its
/// groups ("groups.0.lr"). Of torch's Adam, AdamW, SGD, RMSprop and Adagrad; others raise.
State state_of(torch::optim::Optimizer& optimizer, const torch::nn::Module& module);

/// All that a training is continued from: the model ("model.layers.0.weight"), the optimizer ("optimizer.layers.0.weight.exp_avg"),
/// the state of Weft's random numbers ("random"), and a program's own values.
///
///   save(training_state(*model, optimizer, {{"step", 100}}), "run/step_100");
///   ...
///   State values = {{"step", 0}};                                       // on any mesh, in any layouts
///   load_training_state(*model, optimizer, values, "run/step_100");     // values["step"] is 100
State training_state(const torch::nn::Module& module, torch::optim::Optimizer& optimizer, const State& values = {});

/// Fills a module and an optimizer from a checkpoint of training_state, sets the state of random numbers, and replaces `values`. An
/// optimizer that has made no step gets its state in the layouts of the parameters; one that has, the state that was saved alone.
/// Raises, before anything is changed, for an optimizer of another class or with other groups, and for names that only the
/// checkpoint, or only the module or the values have.
void load_training_state(
    torch::nn::Module& module,
    torch::optim::Optimizer& optimizer,
    State& values,
    const std::string& folder,
    const LoadOptions& options = {});

} // namespace weft::nn
