#pragma once

#include "tests/integration/samples.h"

#include <c10/core/GradMode.h>

#include <tuple>

namespace weft::testing {

/// Floats of these shapes, each with values of its own.
inline Inputs floats(const Shapes& shapes) {
  Inputs inputs;
  for (const auto& shape : shapes) {
    inputs.push_back(sample_values(shape, static_cast<int64_t>(inputs.size()) + 1));
  }
  return inputs;
}

/// Integers from 0 to below `end`; the same every time.
inline at::Tensor whole_numbers(c10::IntArrayRef sizes, int64_t end, int64_t seed = 1) {
  return at::randint(end, sizes, at::detail::createCPUGenerator(seed), at::kLong);
}

/// What an operator gives, without what it leaves out.
template <class... Tensors>
Inputs results(const std::tuple<Tensors...>& tuple) {
  Inputs all;
  const auto add = [&](const auto& item) {
    if constexpr (std::is_same_v<std::decay_t<decltype(item)>, at::Tensor>) {
      if (item.defined()) {
        all.push_back(item);
      }
    }
  };
  std::apply([&](const auto&... items) { (add(items), ...); }, tuple);
  return all;
}

/// The call by itself: for operators that autograd calls, whose own gradients are not of interest.
inline std::function<Inputs(const Inputs&)> without_gradients(std::function<Inputs(const Inputs&)> call) {
  return [call = std::move(call)](const Inputs& inputs) {
    const c10::NoGradGuard no_gradients;
    return call(inputs);
  };
}

} // namespace weft::testing
