#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/core/Generator.h>

#include <functional>
#include <optional>

namespace weft {

/// In an InitializationScope, the generator on the CPU from which this thread draws random fills of distributed
/// tensors: the one given to the operator, or else the scope's. nullopt outside of a scope.
std::optional<at::Generator> stream_generator(const std::optional<at::Generator>& given = std::nullopt);

/// Sets the scope's generator and returns the one before.
std::optional<at::Generator> exchange_stream_generator(std::optional<at::Generator> generator);

/// Fills a tensor on the CPU with numbers by one call of torch.
using Draw = std::function<void(at::Tensor numbers)>;

enum class Drawn {
  /// Several calls of torch on consecutive chunks draw the same numbers as one call: a rank holds one chunk at a time.
  InChunks,
  /// Torch computes all numbers of a call from one number of the generator: a rank holds the global tensor while it
  /// slices it.
  AtOnce,
};

/// Writes to this rank's local tensor the numbers that `draw` would give its elements in the global tensor. Each rank
/// draws the numbers of the global tensor.
///
///   fill_from_stream(impl, Drawn::InChunks, [&](at::Tensor numbers) { numbers.uniform_(0, 1, generator); });
void fill_from_stream(const DTensorImpl& tensor, Drawn how, const Draw& draw);

} // namespace weft
