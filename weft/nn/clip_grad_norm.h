#pragma once

#include <ATen/core/Tensor.h>

namespace weft::nn {

/// Scales the gradients of these parameters, in place, so that their norm as one vector is at most `max_norm`; gives the
/// norm before. The counterpart of torch::nn::utils::clip_grad_norm_ with one all-reduce per mesh, instead of one per
/// parameter, and with no wait for the device.
///
///   auto norm = weft::nn::clip_grad_norm_(model->parameters(), 1.0);
///   norm.item<double>();
///
/// The norm is the same on every rank: a replicated tensor without dims on the mesh of the first gradient, or a plain one
/// where all gradients are. Parameters without a gradient do not count. `error_if_nonfinite` raises on every rank where
/// the norm is infinite or no number.
at::Tensor clip_grad_norm_(
    at::TensorList parameters,
    double max_norm,
    double norm_type = 2,
    bool error_if_nonfinite = false);

} // namespace weft::nn
