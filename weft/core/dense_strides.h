#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/DimVector.h>

namespace weft {

/// The strides of a contiguous tensor, in elements. Sizes of 0 count as 1, as in torch.
///
///   dense_strides({4, 3})     // {3, 1}
c10::DimVector dense_strides(c10::IntArrayRef sizes);

} // namespace weft
