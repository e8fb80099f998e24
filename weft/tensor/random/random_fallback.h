#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>

namespace weft {

/// ATen's random operators beside those of random_kernels.h. None may draw from ATen's default generators for a
/// distributed tensor: those differ between ranks, and then replicas do too.

/// Whether ATen composes the operator of ones that have kernels here (uniform, rand_like.out, ...), so that it must not
/// get a kernel of its own.
bool is_composed_of_random(const c10::OperatorHandle& op);

/// Registers those that take a generator (multinomial, poisson, binomial, ...), where they have no kernel yet: they run
/// on replicated tensors with a generator that is seeded alike on all ranks.
void register_random_fallback(torch::Library& library);

/// Where an operator has a dropout inside (attention), for which it draws from ATen's generator: the position of the
/// probability among its arguments.
std::optional<size_t> inner_dropout_argument(const c10::OperatorHandle& op);

/// Raises unless that probability is 0.
void check_no_inner_dropout(const c10::OperatorHandle& op, const c10::IValue& probability);

} // namespace weft
