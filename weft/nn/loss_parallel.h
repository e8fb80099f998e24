#pragma once

#include "weft/tensor/impl/scopes.h"

namespace weft::nn {

/// Cross entropy of class-sharded logits never gathers them: F::cross_entropy and at::cross_entropy_loss ensure that
/// without this scope (see cross_entropy.h). The scope makes two differences:
///   - target and class weights may be plain tensors, which count as replicated;
///   - a call that would have to gather the classes raises an error.
///
///   const nn::LossParallel scope;
///   auto loss = F::cross_entropy(logits, target);
///   loss.backward();
using LossParallel = ScopeOf<&Scopes::loss_parallel>;

} // namespace weft::nn
