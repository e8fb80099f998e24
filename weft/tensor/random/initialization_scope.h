#pragma once

#include "weft/tensor/impl/call_mode.h"
#include "weft/tensor/impl/scopes.h"
#include "weft/tensor/random/stand_in.h"

#include <ATen/core/Generator.h>
#include <c10/core/StorageImpl.h>

#include <optional>
#include <unordered_map>

namespace weft {

/// While it lasts, random numbers of this thread come from a generator of torch on the CPU, as they would in a program on
/// one device: distributed tensors take their part of the numbers that the whole tensor would get, on any device and
/// bit for bit, and nothing is communicated; plain tensors on other devices get the numbers of the CPU too. Every rank
/// draws all numbers, so that the generators of all ranks stay in step. Plain tensors among distributed ones count as
/// replicated.
///
///   InitializationScope scope(7);
///   torch::nn::init::kaiming_uniform_(weight, std::sqrt(5));    // as after torch::manual_seed(7)
///
/// Parts of a tensor may be filled where they lie: weight[3].zero_() of a weight whose rows are cut (weft/tensor/random/stand_in.h).
/// The whole numbers of a tensor are never held at once, but for bernoulli_ and exponential_, which torch does not draw
/// one after the other. What cannot be drawn this way (bernoulli of distributed probabilities) raises.
class InitializationScope : public CallMode {
 public:
  explicit InitializationScope(uint64_t seed);
  /// A generator on the CPU, in the same state on every rank.
  explicit InitializationScope(at::Generator generator);
  ~InitializationScope() override;

  /// Whether some operator has written to the memory of this tensor. The same on every rank.
  bool has_written(const at::Tensor& tensor) const;

 protected:
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override;

 private:
  void note_written(const at::Tensor& tensor);

  at::Generator generator_;
  std::optional<at::Generator> outer_;
  ReplicatePlainScope replicate_plain_;
  StandIns stand_ins_;
  /// Weak, so that the address of what is gone is not that of another.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> written_;
};

} // namespace weft
