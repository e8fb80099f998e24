#pragma once

#include "weft/tensor/dispatch/prepare.h"
#include "weft/tensor/impl/call_cache.h"
#include "weft/tensor/impl/operand.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DefaultDtype.h>

#include <atomic>

namespace weft {

/// One operator on distributed tensors: reads the arguments, finds or prepares the call in the cache, and runs it on
/// the local tensors.
class DTensorKernel {
 public:
  explicit DTensorKernel(const c10::OperatorHandle& op);

  /// Replaces the arguments on the stack by the results.
  void call(c10::DispatchKeySet keys, torch::jit::Stack* stack) const;

  const c10::OperatorHandle& op() const {
    return op_;
  }
  const OperatorSchema& schema() const {
    return traits_.schema;
  }
  /// Called when the operator's rule has changed: no call that was prepared before is found again, on any thread.
  void forget_calls() const;
  /// The first word of the keys of this operator's calls. It includes the default dtype (torch.set_default_dtype),
  /// because integers that are divided, or multiplied by a Python float, get that dtype; it is in the highest bits,
  /// which no address uses.
  uint64_t first_word() const {
    return identity_.load(std::memory_order_relaxed) |
        static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 56;
  }
  /// Whether an argument is the probability of a dropout inside of the operator, which must be 0.
  bool has_inner_dropout() const {
    return inner_dropout_.has_value();
  }
  /// How often it has run on replicated tensors because it has no rule.
  size_t fallbacks() const {
    return fallbacks_;
  }

 private:
  /// Returns false if a plain tensor among the arguments does not count as replicated.
  bool read_arguments(c10::ArrayRef<c10::IValue> arguments, CallKey& key, OperandRefs& operands) const;
  bool read_tensor(const c10::IValue& value, int32_t argument, int32_t position, CallKey& key, OperandRefs& operands)
      const;
  static bool read_plain(const at::Tensor& tensor, CallKey& key);
  /// The traits with the rule that the operator has now, which the user may have registered meanwhile.
  OperatorTraits current_traits() const;
  bool keep_linear(c10::ArrayRef<c10::IValue> arguments, const OperandRefs& operands) const;
  /// Raises, in debug mode, if a plain operand differs between ranks.
  void check_plain_agree(const DeviceMesh& mesh, const OperandRefs& operands) const;
  void count_fallback(const PreparedCall& call) const;

  c10::OperatorHandle op_;
  OperatorTraits traits_;
  std::optional<size_t> inner_dropout_;
  bool is_fused_optimizer_;
  /// An address that no other kernel has; another one after each change of the operator's rule.
  mutable std::atomic<uintptr_t> identity_ = reinterpret_cast<uintptr_t>(this);
  /// Whether a registered rule may read numbers, so that the keys include their values.
  mutable std::atomic<bool> keeps_values_;
  mutable std::atomic<size_t> fallbacks_ = 0;
};

/// Raises unless an argument is distributed or is a plain tensor that counts as replicated.
void check_may_be_plain(const c10::OperatorHandle& op, size_t argument, const at::Tensor& tensor);

/// The bits of a device in a word of a key: the highest, which no address uses.
inline uint64_t device_bits(c10::Device device) {
  return static_cast<uint64_t>(static_cast<uint8_t>(device.type())) << 56 |
      static_cast<uint64_t>(static_cast<uint8_t>(device.index())) << 48;
}

/// The word of a distributed tensor in a key. Specs are aligned, so the lowest bits are free. It includes the device,
/// because the call's results are on it: the same spec describes tensors with data and without (meta).
inline uint64_t word_of(const DTensorImpl& impl, bool is_parameter) {
  const bool stays = is_parameter || impl.is_cast_parameter();
  return reinterpret_cast<uintptr_t>(impl.spec().get()) | (stays ? 1 : 0) | (impl.is_copy_of_base() ? 2 : 0) |
      device_bits(impl.device());
}

/// The first word of a plain tensor; its number of dims and its sizes follow.
inline uint64_t word_of_plain(const at::Tensor& tensor) {
  const bool is_number = tensor.unsafeGetTensorImpl()->is_wrapped_number();
  return 2 | (is_number ? 4 : 0) | static_cast<uint64_t>(tensor.scalar_type()) << 3 | device_bits(tensor.device());
}

} // namespace weft
