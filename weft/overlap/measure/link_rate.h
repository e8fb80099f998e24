#pragma once

#include "weft/comm/group.h"

#include <c10/core/Device.h>

namespace weft {

/// The cost of messages between neighbours in a ring of the group's members, in seconds.
struct LinkTimes {
  double latency;         // of a small message, from its start to its end
  double message;         // of one more message while several are sent
  double per_byte;        // of a large message
  double device_per_byte; // the share of per_byte during which the computing device is busy
};

/// Sends messages round the ring: small ones, then larger ones until one takes some milliseconds. At 1 Gbit/s all take
/// some 40 ms. Every member must call it, and all get the times of the slowest member. If a member does not call it,
/// the others raise within the timeout. `device` is that of the group's tensors.
LinkTimes measure_link(Group& group, c10::Device device);

/// The elementwise maximum of the values of all members.
std::vector<double> largest(Group& group, c10::Device device, const std::vector<double>& values);

} // namespace weft
