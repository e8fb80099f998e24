#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <optional>

namespace weft {

struct DistributeOptions {
  /// The rank whose values are distributed: the one at this position along every mesh dim. With nullopt nothing is
  /// communicated, and each rank slices its local tensor out of the tensor that it gives.
  std::optional<int64_t> src_data_rank = 0;
};

/// Distributes a global tensor, which every rank gives in its global shape. The result has memory of its own and is a
/// leaf that requires a gradient if the tensor does.
///
///   auto weight = distribute_tensor(at::randn({8, 4}), mesh, {Shard(0)});
///
/// The dims have the order in memory that those of the tensor have (channels last, say). Where the layout is P(sum), one
/// rank holds the values and the others zeros, as redistribute makes it.
///
/// The source's shards are scattered along the mesh dims that shard the tensor, then broadcast along the others. A
/// tensor that already has this mesh and layout is returned as it is. On a rank that is not in the mesh the local
/// tensor is empty.
at::Tensor distribute_tensor(
    const at::Tensor& tensor,
    const DeviceMesh& mesh,
    const Layout& layout,
    const DistributeOptions& options = {});

} // namespace weft
