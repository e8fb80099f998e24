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
  Barrier,
  CompareSeeds // an all_gather of the members' seeds; see check_seeds
};

std::string_view to_string(Collective collective);
/// Whether it is a send or a recv: these are between two members and have sequence numbers of their own.
bool is_message(Collective collective);

/// One member's description of one call. The members of a group compare these to check that they make the same call.
struct Call {
  Collective collective;
  ReduceOp op = ReduceOp::Sum;                        // of a reduction
  int64_t root = 0;                                   // of broadcast and scatter; the other member of send and recv
  c10::ScalarType dtype = c10::ScalarType::Undefined; // if this member passes no tensor
  c10::DimVector sizes = {}; // of this member's input, for error texts; they may differ between members
  uint64_t sequence = 0;     // the number of earlier calls of the group
  int64_t stage = 0;         // of a collective that takes several exchanges
  uint32_t subject = 0;      // see SubjectScope

  bool has_tensor() const {
    return dtype != c10::ScalarType::Undefined;
  }
  /// Whether two members' descriptions mean the same call; a send and its recv do.
  bool matches(const Call& other) const;
  /// Equal for two calls exactly if `matches` is true and both have a tensor (for up to 65,536 members).
  uint64_t fingerprint() const;
  /// "all_reduce(sum) f32[4,8]", "all_gather f32[12] of unit 3 (lengths 5a1f)"
  std::string to_string() const;
};

} // namespace weft
