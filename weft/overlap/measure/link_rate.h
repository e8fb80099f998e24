#pragma once

#include "weft/comm/group.h"

#include <c10/core/Device.h>

namespace weft {

/// What messages between neighbours in a ring of the group's members cost, in seconds.
struct LinkTimes {
  double latency;         // of a small one, from its start to its end
  double message;         // of one more, when several are under way
  double per_byte;        // of a large one
  double device_per_byte; // of that, what the device that computes spends itself
};

/// Sends messages round: small ones, then larger ones until one takes some milliseconds. At 1 Gbit/s all take some 40 ms.
/// Every member must call it, and gets the times of the slowest, the same on all; one that does not come is an error on all
/// others within the timeout. The device is where the group's tensors are.
LinkTimes measure_link(Group& group, c10::Device device);

/// Everybody's largest values.
std::vector<double> largest(Group& group, c10::Device device, const std::vector<double>& values);

} // namespace weft
