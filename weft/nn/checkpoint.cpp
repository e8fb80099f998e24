#include "weft/nn/checkpoint.h"

#include "weft/tensor/random/random_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>

namespace weft::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Forward = std::function<at::Tensor(const at::Tensor&)>;

/// The global state that a computation depends on, in addition to its inputs.
struct Surroundings {
  struct Autocast {
    bool enabled;
    at::ScalarType dtype;
  };
  static constexpr std::array kDevices = {at::kCPU, at::kCUDA};

  RandomState distributed;
  at::Tensor plain; // the state of torch's generator
  std::array<Autocast, kDevices.size()> autocasts;

  static Surroundings now() {
    Surroundings result;
    result.distributed = random_state();
    auto generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    result.plain = generator.get_state();
    for (size_t i = 0; i < kDevices.size(); ++i) {
      result.autocasts[i] = {
          at::autocast::is_autocast_enabled(kDevices[i]), at::autocast::get_autocast_dtype(kDevices[i])};
    }
    return result;
  }

  void restore() const {
    set_random_state(distributed);
    auto generator = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(generator.mutex());
    generator.set_state(plain);
    for (size_t i = 0; i < kDevices.size(); ++i) {
      at::autocast::set_autocast_enabled(kDevices[i], autocasts[i].enabled);
      at::autocast::set_autocast_dtype(kDevices[i], autocasts[i].dtype);
    }
  }
};

/// Restores a saved state until the end of the scope.
class Then {
 public:
  explicit Then(const Surroundings& then) : now_(Surroundings::now()) {
    then.restore();
  }
  ~Then() {
    now_.restore();
  }
  Then(const Then&) = delete;
  Then& operator=(const Then&) = delete;

 private:
  Surroundings now_;
};

struct Recipe : torch::CustomClassHolder {
  Recipe(Forward function, Surroundings around) : forward(std::move(function)), surroundings(std::move(around)) {}

  Forward forward;
  Surroundings surroundings;
};

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& input,
      const c10::intrusive_ptr<Recipe>& recipe) {
    context->saved_data["recipe"] = c10::IValue::make_capsule(recipe);
    context->save_for_backward({input});
    const c10::NoGradGuard no_graph;
    return recipe->forward(input);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto recipe = c10::static_intrusive_pointer_cast<Recipe>(context->saved_data["recipe"].toCapsule());
    const auto input = context->get_saved_variables()[0];
    const auto again = input.detach().set_requires_grad(input.requires_grad());
    at::Tensor output;
    {
      const Then then(recipe->surroundings);
      const at::AutoGradMode graph(true);
      output = recipe->forward(again);
    }
    if (output.requires_grad()) {
      torch::autograd::backward({output}, {gradients[0]});
    }
    return {again.grad(), at::Tensor()};
  }
};

} // namespace

at::Tensor checkpoint(const Forward& forward, const at::Tensor& input) {
  return Checkpoint::apply(input, c10::make_intrusive<Recipe>(forward, Surroundings::now()));
}

} // namespace weft::nn
