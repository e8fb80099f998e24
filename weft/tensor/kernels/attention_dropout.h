#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// scaled_dot_product_attention with dropout, of separate operators on every device: what is dropped follows from the global
/// index, as by at::dropout, and is the same under any placement. ATen would choose a fused kernel on CUDA, which draws its
/// own numbers inside, other ones on each rank.
///
///   attention_with_dropout(q {S(1)}, k {S(1)}, v {S(1)}, {}, 0.1, true, {}, false)   ->   {S(1)}, without communication
at::Tensor attention_with_dropout(
    const at::Tensor& query,
    const at::Tensor& key,
    const at::Tensor& value,
    const std::optional<at::Tensor>& attn_mask,
    double dropout_p,
    bool is_causal,
    std::optional<double> scale,
    bool enable_gqa);

} // namespace weft
