#pragma once

#include "weft/core/layout.h"

#include <optional>

namespace weft {

/// The tensor dim of the heads in queries, keys and values of attention.
constexpr int64_t kHeadDim = 1;

/// Into how many parts a tensor dim is cut; 0 where a cut is strided.
int64_t shards_along(int64_t tensor_dim, const Layout& layout, c10::IntArrayRef mesh_shape);

/// Grouped-query attention where ranks share heads of the key: eight heads of the query on four ranks, two heads of the key
/// that every rank holds. No placement says which head of the key a rank needs, and by the rules the query would move.
/// Gives the number of parts that the query's heads are cut into; nothing where no rank's part begins or ends among the
/// heads that share one of the key, or where the key's heads are cut as well.
std::optional<int64_t> parts_sharing_heads(
    int64_t query_heads,
    int64_t key_heads,
    const Layout& query,
    const Layout& key,
    c10::IntArrayRef mesh_shape);

} // namespace weft
