#pragma once

#include "weft/overlap/rates.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace weft {

/// What this device computes with matmuls of this dtype: a few of them, timed (some ten milliseconds), once per process,
/// device, dtype and number of threads. What messages cost is not in it.
Compute measured_compute(c10::Device device, c10::ScalarType dtype);

/// What is reckoned with where nothing can be measured: a core of today, or a large GPU.
Compute assumed_compute(c10::DeviceType device_type, c10::ScalarType dtype);

} // namespace weft
