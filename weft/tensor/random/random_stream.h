#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <ATen/core/Generator.h>

#include <functional>
#include <optional>

namespace weft {

/// The generator on the CPU from which random fills of distributed tensors are drawn on this thread, in an
/// InitializationScope: the one given to the operator, or else the scope's. None outside of it.
std::optional<at::Generator> stream_generator(const std::optional<at::Generator>& given = std::nullopt);

/// Sets the scope's, and returns the one before.
std::optional<at::Generator> exchange_stream_generator(std::optional<at::Generator> generator);

/// Draws numbers in the memory order of a tensor on the CPU that torch would fill by one call.
using Draw = std::function<void(at::Tensor numbers)>;

enum class Drawn {
  /// Torch gives the numbers of a part and then those of the next: no more than a chunk is held.
  InChunks,
  /// The numbers of a call follow from one number of the generator: the whole is held while it is cut.
  Whole,
};

/// Writes to this rank's part the numbers that `draw` gives the whole tensor. Each rank draws all of them.
///
///   fill_from_stream(impl, Drawn::InChunks, [&](at::Tensor numbers) { numbers.uniform_(0, 1, generator); });
void fill_from_stream(const DTensorImpl& tensor, Drawn how, const Draw& draw);

} // namespace weft
