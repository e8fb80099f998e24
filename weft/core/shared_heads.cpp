#include "weft/core/shared_heads.h"

namespace weft {

int64_t shards_along(int64_t tensor_dim, const Layout& layout, c10::IntArrayRef mesh_shape) {
  int64_t shards = 1;
  for (const auto m : layout.shard_order(tensor_dim)) {
    shards *= layout[m].is_plain_shard() ? mesh_shape[m] : 0;
  }
  return shards;
}

std::optional<int64_t> shards_sharing_heads(
    int64_t query_heads,
    int64_t key_heads,
    const Layout& query,
    const Layout& key,
    c10::IntArrayRef mesh_shape) {
  const auto shards = shards_along(kHeadDim, query, mesh_shape);
  const bool shares = key_heads > 0 && key_heads < query_heads && query_heads % key_heads == 0 && shards > 1 &&
      key_heads % shards != 0 && key.shard_order(kHeadDim).empty();
  return shares ? std::optional(shards) : std::nullopt;
}

} // namespace weft
