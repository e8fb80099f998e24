#pragma once

#include "weft/tensor/impl/call_mode.h"
#include "weft/tensor/impl/scopes.h"
#include "weft/tensor/random/stand_in.h"

#include <ATen/core/Generator.h>
#include <c10/core/StorageImpl.h>

#include <optional>
#include <unordered_map>

namespace weft {

/// While the scope exists, random numbers of this thread come from a generator of torch on the CPU, as in a program on
/// one device. The local tensors of a distributed tensor get the numbers that their elements would have in the global
/// tensor, on any device and bit for bit, without communication. Plain tensors on other devices get the numbers of the
/// CPU too. Every rank draws all numbers, so that the generators of all ranks stay in the same state. Plain tensors
/// among distributed ones count as replicated.
///
///   InitializationScope scope(7);
///   torch::nn::init::kaiming_uniform_(weight, std::sqrt(5));    // as after torch::manual_seed(7)
///
/// Views along sharded dims may be filled: weight[3].zero_() of a weight with sharded rows
/// (weft/tensor/random/stand_in.h). No rank holds all numbers of a tensor at once, except for bernoulli_ and
/// exponential_, which torch does not draw one after the other. Operators that cannot be drawn this way (bernoulli of
/// distributed probabilities) raise.
class InitializationScope : public CallMode {
 public:
  explicit InitializationScope(uint64_t seed);
  /// A generator on the CPU, in the same state on every rank.
  explicit InitializationScope(at::Generator generator);
  ~InitializationScope() override;

  /// Whether an operator has written to the memory of this tensor within the scope. The same on every rank.
  bool has_written(const at::Tensor& tensor) const;

 protected:
  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override;

 private:
  void note_written(const at::Tensor& tensor);

  at::Generator generator_;
  std::optional<at::Generator> outer_;
  ReplicatePlainScope replicate_plain_;
  StandIns stand_ins_;
  /// Holds weak pointers, so that the address of a freed storage is not reused for another one.
  std::unordered_map<const c10::StorageImpl*, c10::weak_intrusive_ptr<c10::StorageImpl>> written_;
};

} // namespace weft
