#pragma once

#include <torch/library.h>

namespace weft {

/// Grouped-query attention where ranks share heads of the key: eight heads of the query on four ranks, two heads of the key
/// that every rank computes. No placement says which head of the key a rank needs, and by the rules the query would move.
///
///   scaled_dot_product_attention(q {S(1)}, k {R}, v {R}, enable_gqa)
///     every rank takes the heads that its part of the query needs: nothing moves
///   repeat_interleave(k, 4, dim)
///     a gradient that is cut along the repeated dim is added up on the rank that has it
///
/// In both the gradients of k and v are terms, P(sum), of the size of k and v: they are reduced once, where that is due.
void register_shared_heads(torch::Library& library);

} // namespace weft
