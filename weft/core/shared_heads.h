#pragma once

#include "weft/core/layout.h"

#include <optional>

namespace weft {

/// The tensor dim of the heads in queries, keys and values of attention.
constexpr int64_t kHeadDim = 1;

/// The number of shards of a tensor dim; 0 if a mesh dim shards it with a stride or raggedly.
int64_t shards_along(int64_t tensor_dim, const Layout& layout, c10::IntArrayRef mesh_shape);

/// Grouped-query attention where ranks share heads of the key: eight heads of the query on four ranks, two heads of the
/// key that every rank holds. No placement says which head of the key a rank needs, and the rules would redistribute
/// the query. Returns the number of shards of the query's heads; nothing if no rank's shard begins or ends among the
/// heads that share one head of the key, or if the key's heads are sharded too.
std::optional<int64_t> shards_sharing_heads(
    int64_t query_heads,
    int64_t key_heads,
    const Layout& query,
    const Layout& key,
    c10::IntArrayRef mesh_shape);

} // namespace weft
