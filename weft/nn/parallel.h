#pragma once

#include "weft/nn/around_forward.h"
#include "weft/tensor/impl/parallel_forward.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <tuple>
#include <vector>

namespace weft::nn {

/// Called with the inputs or the outputs of a module, by position; an argument that is no tensor is undefined there.
using BoundaryFn = std::function<std::vector<at::Tensor>(std::vector<at::Tensor> values)>;

/// Functions to call at the boundaries of a module. C++ modules have no hooks; a module that is declared Parallel has
/// these.
class Boundaries {
 public:
  virtual ~Boundaries() = default;

  /// The function is called after those added before.
  void add_input_fn(BoundaryFn function) {
    input_fns_.push_back(std::move(function));
  }
  void add_output_fn(BoundaryFn function) {
    output_fns_.push_back(std::move(function));
  }
  void set_around_forward(std::shared_ptr<AroundForward> around) {
    around_forward_ = std::move(around);
  }
  const std::shared_ptr<AroundForward>& around_forward() const {
    return around_forward_;
  }
  /// Whether plain tensors among distributed ones count as replicated in the module's forward (ParallelForward).
  void set_replicates_plain(bool replicates_plain) {
    replicates_plain_ = replicates_plain;
  }
  /// Whether a parallel plan makes the module take or give out plain tensors that are shards.
  void set_has_plain_shards(bool has_plain_shards) {
    has_plain_shards_ = has_plain_shards;
  }
  bool has_plain_shards() const {
    return has_plain_shards_;
  }

 protected:
  bool replicates_plain() const {
    return replicates_plain_;
  }
  bool has_input_fns() const {
    return !input_fns_.empty();
  }
  std::vector<at::Tensor> entered(std::vector<at::Tensor> values) const {
    return through(input_fns_, std::move(values));
  }

  at::Tensor left(at::Tensor output) const {
    return output_fns_.empty() ? output : through(output_fns_, {std::move(output)})[0];
  }
  template <class... Ts>
    requires(std::same_as<Ts, at::Tensor> && ...)
  std::tuple<Ts...> left(std::tuple<Ts...> outputs) const {
    if (output_fns_.empty()) {
      return outputs;
    }
    auto values = std::apply([](auto&... output) { return std::vector<at::Tensor>{output...}; }, outputs);
    values = through(output_fns_, std::move(values));
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Ts...>(values[I]...);
    }(std::index_sequence_for<Ts...>());
  }
  /// The output has a type that no function accepts.
  template <class T>
  T left(T output) const {
    TORCH_CHECK_NOT_IMPLEMENTED(
        output_fns_.empty(),
        "[Parallel] a tensor or a tuple of tensors is required as the output of a module with an "
        "output function.");
    return output;
  }

 private:
  static std::vector<at::Tensor> through(const std::vector<BoundaryFn>& functions, std::vector<at::Tensor> values) {
    for (const auto& function : functions) {
      const auto count = values.size();
      values = function(std::move(values));
      TORCH_CHECK_VALUE(
          values.size() == count, "[Parallel] an input or output function must give as many tensors as it is given, ",
          count, ", but gave ", values.size(), ".");
    }
    return values;
  }

  std::vector<BoundaryFn> input_fns_;
  std::vector<BoundaryFn> output_fns_;
  std::shared_ptr<AroundForward> around_forward_;
  bool replicates_plain_ = false;
  bool has_plain_shards_ = false;
};

/// Calls set_replicates_plain for a module that is declared Parallel, and for those inside of it.
void set_replicates_plain(torch::nn::Module& module, bool replicates_plain);

template <class Impl, class Forward = decltype(&Impl::forward)>
class ParallelImpl;

template <class Impl, class Owner, class Result, class... Args>
class ParallelImpl<Impl, Result (Owner::*)(Args...)> : public Impl, public Boundaries {
 public:
  using Impl::Impl;

  Result forward(Args... args) {
    const ParallelForward scope(replicates_plain());
    if (around_forward() == nullptr) {
      return crossed(std::forward<Args>(args)...);
    }
    return call_within(*around_forward(), tensors_in(args...), [&] { return crossed(std::forward<Args>(args)...); });
  }

 private:
  /// The forward with the functions at its boundaries.
  Result crossed(Args... args) {
    if (!has_input_fns()) {
      return left(Impl::forward(std::forward<Args>(args)...));
    }
    const auto values = entered({tensor_or_none(args)...});
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return left(Impl::forward(instead<Args>(args, values[I])...));
    }(std::index_sequence_for<Args...>());
  }

  template <class Arg>
  static constexpr bool kIsTensor = std::same_as<std::remove_cvref_t<Arg>, at::Tensor>;

  template <class Arg>
  static at::Tensor tensor_or_none(const Arg& arg) {
    if constexpr (kIsTensor<Arg>) {
      return arg;
    } else {
      return {};
    }
  }
  template <class Arg>
  static decltype(auto) instead(std::remove_reference_t<Arg>& arg, const at::Tensor& value) {
    if constexpr (kIsTensor<Arg>) {
      return (value);
    } else {
      return std::forward<Arg>(arg);
    }
  }
};

/// A module whose inputs and outputs a parallel plan or distribute_module may redistribute. It is the module itself,
/// with the same names:
///
///   weft::nn::Parallel<torch::nn::Linear> query(torch::nn::LinearOptions(64, 64).bias(false));
///   query->weight;  query(x);
///
/// In the forward of a distributed one plain tensors count as replicated, unless an option says otherwise.
///
/// Undistributed, it behaves as the module does. Your own modules need a holder (TORCH_MODULE) and exactly one forward.
template <class Holder>
using Parallel = torch::nn::ModuleHolder<ParallelImpl<typename Holder::ContainedType>>;

} // namespace weft::nn
