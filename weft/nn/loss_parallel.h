#pragma once

#include "weft/tensor/impl/scopes.h"

namespace weft::nn {

/// Cross entropy of class-sharded logits never gathers them: F::cross_entropy and at::cross_entropy_loss see to that by
/// themselves (see cross_entropy.h). While this scope lasts, two things differ:
///   - target and class weights may be plain tensors, which count as replicated;
///   - a call for which all classes would have to be brought together raises instead.
///
///   const nn::LossParallel scope;
///   auto loss = F::cross_entropy(logits, target);
///   loss.backward();
using LossParallel = ScopeOf<&Scopes::loss_parallel>;

} // namespace weft::nn
