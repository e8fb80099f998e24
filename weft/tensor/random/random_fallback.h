#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>

namespace weft {

/// ATen's random operators that draw no numbers by element index. None of them may draw from ATen's default generators
/// for a distributed tensor: these differ between ranks, so that replicas would differ too.

/// Whether ATen composes the operator (uniform, rand_like.out, ...) of operators that have kernels here, so that it
/// must not get a kernel of its own.
bool is_composed_of_random(const c10::OperatorHandle& op);

/// Registers the operators that take a generator (poisson, binomial, ...) and have no kernel yet. They run
/// on replicated tensors with a generator that has the same seed on all ranks.
void register_random_fallback(torch::Library& library);

/// The kernel of a random operator that takes a generator, for use by one operator; nullopt for others.
std::optional<torch::CppFunction> seeded_kernel(const c10::OperatorHandle& op);

/// The position of the dropout probability among the arguments of an operator that has a dropout inside (attention),
/// for which it would draw from ATen's generator; nullopt for other operators.
std::optional<size_t> inner_dropout_argument(const c10::OperatorHandle& op);

/// Raises unless that probability is 0.
void check_no_inner_dropout(const c10::OperatorHandle& op, const c10::IValue& probability);

} // namespace weft
