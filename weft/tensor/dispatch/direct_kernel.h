#pragma once

#include "weft/tensor/dispatch/direct_argument.h"
#include "weft/tensor/dispatch/local_call.h"
#include "weft/tensor/impl/overwritten.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/boxing/impl/boxing.h>

#include <algorithm>
#include <tuple>

namespace weft {

/// An operator by its C++ signature. A call that is in the cache and redistributes nothing calls the local operator
/// directly: nothing is put on a stack and no reference count changes, which matters from Python, where that can mean
/// taking its lock. Every other call goes to the general (boxed) kernel, with the same keys in the same cache.
template <class Signature>
class DirectKernel;

template <class Return, class... Args>
class DirectKernel<Return(Args...)> {
 public:
  DirectKernel(const DTensorKernel& kernel, c10::BoxedKernel general)
      : kernel_(kernel),
        general_(std::move(general)),
        local_(kernel.op().typed<Return(Args...)>()),
        is_pointwise_(kernel.op().hasTag(at::Tag::pointwise)) {}

  Return operator()(c10::DispatchKeySet keys, Args... args) const {
    std::tuple<DirectArgument<Args>...> arguments;
    if (const auto* call = find(arguments, std::index_sequence_for<Args...>(), args...)) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      count_writes(std::index_sequence_for<Args...>(), args...);
      return std::apply(
          [&](auto&... argument) -> Return {
            if constexpr (std::is_void_v<Return>) {
              local_.call(argument.get()...);
            } else {
              return result(*call, local_.call(argument.get()...), args...);
            }
          },
          arguments);
    }
    return c10::impl::BoxedKernelWrapper<Return(Args...)>::call(
        general_, kernel_.op(), keys, std::forward<Args>(args)...);
  }

 private:
  static constexpr bool kWrites = std::is_void_v<Return> || std::is_same_v<Return, at::Tensor&>;

  /// Flat, because calls of functions that add one word each take more instructions than adding it.
  template <size_t... I>
  [[gnu::flatten]] const PreparedCall* find(
      std::tuple<DirectArgument<Args>...>& arguments,
      std::index_sequence<I...>,
      Args&... args) const {
    if (C10_UNLIKELY(Scopes::any_of_thread())) {
      return nullptr;
    }
    CallKey key;
    key.add(kernel_.first_word());
    const auto& kinds = kernel_.schema().arguments;
    const bool is_direct = (std::get<I>(arguments).read(args, kinds[I], key) && ...);
    return is_direct && !reads_what_it_writes(arguments, std::index_sequence<I...>())
        ? CallCache::of_thread().find_direct(key)
        : nullptr;
  }

  /// Whether an operand shares memory with a written one. Such a call goes to the general kernel, which copies the
  /// operand.
  template <size_t... I>
  bool reads_what_it_writes(std::tuple<DirectArgument<Args>...>& arguments, std::index_sequence<I...>) const {
    if constexpr (kWrites) {
      const auto is_overwritten = [&](const auto& written, const auto& read) {
        return share_storage(written, read) && !(is_pointwise_ && are_same_elements(written, read));
      };
      const auto is_read_from = [&](auto& written, size_t position) {
        return ((I != position && is_overwritten(written.get(), std::get<I>(arguments).get())) || ...);
      };
      return ((is_written<I>() && is_read_from(std::get<I>(arguments), I)) || ...);
    }
    return false;
  }

  /// An operator that returns a reference writes to its first argument alone (see direct_signatures.cpp).
  template <size_t I>
  bool is_written() const {
    if constexpr (std::is_same_v<Return, at::Tensor&>) {
      return I == 0;
    } else {
      const auto& written = kernel_.schema().written;
      return std::find(written.begin(), written.end(), static_cast<int64_t>(I)) != written.end();
    }
  }

  template <size_t... I>
  void count_writes(std::index_sequence<I...>, Args&... args) const {
    if constexpr (kWrites) {
      ((is_written<I>() ? count_write(args) : void()), ...);
    }
  }

  static void count_write(const at::Tensor& tensor) {
    if (const auto* impl = as_dtensor(tensor)) {
      impl->count_write();
    }
  }
  static void count_write(at::TensorList tensors) {
    weft::count_writes(tensors);
  }
  static void count_write(const auto& /*no tensor*/) {}

  /// The tensor of which results that are views are views: the first argument (see direct_signatures.cpp).
  static const DTensorImpl* base_of(const at::Tensor& first) {
    return as_dtensor(first);
  }
  static const DTensorImpl* base_of(const auto& /*list*/) {
    return nullptr;
  }

  static at::Tensor& result(const PreparedCall& /*call*/, at::Tensor& /*local*/, at::Tensor& self, const auto&...) {
    return self;
  }
  static at::Tensor result(const PreparedCall& call, at::Tensor local, const auto& first, const auto&...) {
    const auto& output = call.outputs[0];
    return wrap_output(std::move(local), output, output.is_view ? base_of(first) : nullptr);
  }
  static std::vector<at::Tensor> result(
      const PreparedCall& call,
      std::vector<at::Tensor> locals,
      const auto& first,
      const auto&...) {
    for (size_t i = 0; i < locals.size(); ++i) {
      locals[i] = wrap_output(std::move(locals[i]), call.outputs[i], base_of(first));
    }
    return locals;
  }
  template <class... Tensors>
  static std::tuple<Tensors...> result(const PreparedCall& call, std::tuple<Tensors...> locals, const auto&...) {
    const auto wrapped = [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Tensors...>(wrap_output(std::move(std::get<I>(locals)), call.outputs[I], nullptr)...);
    };
    return wrapped(std::index_sequence_for<Tensors...>());
  }

  const DTensorKernel& kernel_;
  c10::BoxedKernel general_;
  c10::TypedOperatorHandle<Return(Args...)> local_;
  bool is_pointwise_;
};

} // namespace weft
