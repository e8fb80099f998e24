#pragma once

#include "weft/core/placement.h"

#include <c10/core/ScalarType.h>
#include <c10/util/DimVector.h>

#include <string>
#include <string_view>

namespace weft {

enum class Collective : uint8_t {
  AllGather,
  AllToAll,
  ReduceScatter,
  AllReduce,
  Broadcast,
  Scatter,
  Send,
  Recv,
  Barrier
};

std::string_view to_string(Collective collective);
/// Send or recv: between two members, and numbered apart from the collectives.
bool is_message(Collective collective);

/// What one rank says about one call: enough to tell whether the ranks of a group mean the same one.
struct Call {
  Collective collective;
  ReduceOp op = ReduceOp::Sum;                        // of a reduction
  int64_t root = 0;                                   // of broadcast and scatter; the other side of send and recv
  c10::ScalarType dtype = c10::ScalarType::Undefined; // where this rank brings no tensor
  c10::DimVector sizes = {}; // of this rank's input, for messages; they may differ between ranks
  uint64_t sequence = 0;     // how many calls the group had before
  int64_t stage = 0;         // of a collective made of several exchanges

  bool brings_tensor() const {
    return dtype != c10::ScalarType::Undefined;
  }
  /// Whether the ranks that say so mean one call; a send and its recv do.
  bool matches(const Call& other) const;
  /// A number that is the same exactly where `matches` holds and both bring a tensor (for up to 65,536 members).
  uint32_t fingerprint() const;
  /// "all_reduce(sum) f32[4,8]"
  std::string to_string() const;
};

} // namespace weft
