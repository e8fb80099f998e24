#pragma once

#include "weft/overlap/rates.h"

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

namespace weft {

/// The rates of this device for matmuls of this dtype, from a few timed ones (some ten milliseconds), once per process,
/// device, dtype and number of threads. Does not contain the cost of messages.
Compute measured_compute(c10::Device device, c10::ScalarType dtype);

/// The rates that decisions use if nothing can be measured: those of a current CPU core, or of a large GPU.
Compute assumed_compute(c10::DeviceType device_type, c10::ScalarType dtype);

} // namespace weft
