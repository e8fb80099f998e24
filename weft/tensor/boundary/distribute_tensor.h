#pragma once

#include "weft/tensor/impl/dtensor_impl.h"

#include <optional>

namespace weft {

struct DistributeOptions {
  /// Whose values count: the rank at this position along every mesh dim. Without one nothing is communicated, and each
  /// rank cuts its part out of its own tensor.
  std::optional<int64_t> src_data_rank = 0;
};

/// The distributed form of a whole tensor, which every rank gives in its full shape. It has memory of its own and is a
/// leaf that requires a gradient if the tensor does.
///
///   auto weight = distribute_tensor(at::randn({8, 4}), mesh, {Shard(0)});
///
/// The source's parts are scattered along the mesh dims that cut the tensor, then broadcast along the others. A tensor
/// that is distributed as asked already is returned as it is. On a rank that is not in the mesh the local tensor is empty.
at::Tensor distribute_tensor(
    const at::Tensor& tensor,
    const DeviceMesh& mesh,
    const Layout& layout,
    const DistributeOptions& options = {});

} // namespace weft
