#pragma once

namespace weft::nn {

/// Cross entropy of class-sharded logits never gathers them: F::cross_entropy and at::cross_entropy_loss see to that by
/// themselves (see cross_entropy.h). While this scope lasts, two things differ on the thread that has opened it:
///   - target and class weights may be plain tensors, which count as replicated;
///   - a call for which all classes would have to be brought together raises instead.
///
///   const nn::LossParallel scope;
///   auto loss = F::cross_entropy(logits, target);
///   loss.backward();
class LossParallel {
 public:
  explicit LossParallel(bool enabled = true);
  ~LossParallel();
  LossParallel(const LossParallel&) = delete;
  LossParallel& operator=(const LossParallel&) = delete;

  static bool is_enabled();
  /// Returns what was set before.
  static bool set_enabled(bool enabled);

 private:
  bool outer_;
};

} // namespace weft::nn
