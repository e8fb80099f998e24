#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <ranges>
#include <tuple>
#include <vector>

namespace weft::nn {

/// Adds the tensors in an argument or a result of a module: a tensor, and tuples, pairs, optional values and ranges of what has
/// tensors. Those in other types are not known.
template <class T>
void add_tensors(const T& value, std::vector<at::Tensor>& tensors) {
  if constexpr (std::same_as<T, at::Tensor>) {
    tensors.push_back(value);
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](const auto&... each) { (add_tensors(each, tensors), ...); }, value);
  } else if constexpr (requires { value.has_value(), *value; }) {
    if (value.has_value()) {
      add_tensors(*value, tensors);
    }
  } else if constexpr (std::ranges::input_range<const T>) {
    using Each = std::ranges::range_value_t<const T>;
    if constexpr (!std::is_arithmetic_v<Each> && !std::same_as<Each, T>) {
      for (const auto& each : value) {
        add_tensors(each, tensors);
      }
    }
  }
}

} // namespace weft::nn
