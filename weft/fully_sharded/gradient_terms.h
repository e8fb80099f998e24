#pragma once

#include "weft/fully_sharded/shard_dims.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <optional>

namespace weft {

/// This rank's term of the gradient of a gathered parameter: a local tensor, and its layout on the mesh of the shard. Terms over
/// mesh dims other than that of the shards stay terms: shards of them are reduced later, together with those of other units.
struct GradientTerm {
  at::Tensor local;
  Layout layout;
};

/// Of a gradient in the global view. `known` is the layout of the terms to which this one will be added.
GradientTerm term_in_global_view(
    const at::Tensor& gradient,
    const SpecPtr& shard,
    const ShardDims& dims,
    const std::optional<Layout>& known);

/// Of a gradient that a rank has computed from its own data: a plain tensor, or one that is distributed on the other mesh dims.
GradientTerm term_of_own_data(
    const at::Tensor& gradient,
    const SpecPtr& shard,
    const ShardDims& dims,
    const std::optional<Layout>& known);

} // namespace weft
