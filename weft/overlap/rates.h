#pragma once

#include "weft/redistribute/cost.h"

#include <limits>
#include <string>
#include <string_view>

namespace weft {

/// The rates of a device: flops of a large matmul, bytes at which a matmul of few rows reads its operands, and the time
/// of an empty matmul; and the device's own time for messages, during which it cannot compute.
struct Compute {
  double flops_per_second;
  double bytes_per_second;
  double call_seconds;
  double message_seconds = 0;                                                // to start a send and to take a receive
  double message_bytes_per_second = std::numeric_limits<double>::infinity(); // infinite: the device need not copy
};

/// Rates as text, as options and the environment give them.
///
///   parse_link("50us,125MB/s")                        // or "0.05 ms, 1 Gbit/s"
///   parse_compute("100Gflop/s,27GB/s,1us")            // and for messages, where they cost the device time:
///   parse_compute("100Gflop/s,27GB/s,1us,15us,2GB/s")
///   to_string(Link{50e-6, 125e6})                     // "50us,125MB/s"
Link parse_link(std::string_view text);
Compute parse_compute(std::string_view text);
std::string to_string(const Link& link);
std::string to_string(const Compute& compute);

/// "50us", "1.2ms", "20.9s": four digits at most.
std::string seconds_text(double seconds);

} // namespace weft
