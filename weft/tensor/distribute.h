#pragma once

#include "weft/tensor/dtensor_impl.h"

#include <optional>

namespace weft {

/// The distributed tensor whose part on this rank is `local`. Without a shape the parts are taken to be equal in size.
at::Tensor from_local(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    std::optional<c10::IntArrayRef> shape = std::nullopt);

/// This rank's part.
at::Tensor to_local(const at::Tensor& tensor);

at::Tensor redistribute(const at::Tensor& tensor, const Layout& layout);

/// The whole tensor, on every rank.
at::Tensor full_tensor(const at::Tensor& tensor);

/// Cuts a tensor that every rank holds.
at::Tensor distribute_tensor(const at::Tensor& tensor, const DeviceMesh& mesh, const Layout& layout);

const SpecPtr& spec_of(const at::Tensor& tensor);

} // namespace weft
