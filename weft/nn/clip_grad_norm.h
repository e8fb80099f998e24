#pragma once

#include <ATen/core/Tensor.h>

namespace weft::nn {

/// Scales the gradients of these parameters in place, so that their norm as one vector is at most `max_norm`; returns
/// the norm before scaling. Unlike torch::nn::utils::clip_grad_norm_ it makes one all-reduce per mesh instead of one
/// per parameter, and does not wait for the device.
///
///   auto norm = weft::nn::clip_grad_norm_(model->parameters(), 1.0);
///   norm.item<double>();
///
/// The norm is the same on every rank: a replicated 0-dim tensor on the mesh of the first distributed gradient, or a plain
/// one if all gradients are plain. Plain gradients among distributed ones are equal on every rank. Parameters without a gradient are ignored. `error_if_nonfinite` raises on every rank if the
/// norm is infinite or nan.
at::Tensor clip_grad_norm_(
    at::TensorList parameters,
    double max_norm,
    double norm_type = 2,
    bool error_if_nonfinite = false);

} // namespace weft::nn
