#include "weft/comm/collective.h"

#include "weft/core/dtype_text.h"

#include <c10/util/hash.h>

#include <array>

namespace weft {

namespace {

constexpr std::array<std::string_view, 9> kNames = {
    "all_gather", "all_to_all", "reduce_scatter", "all_reduce", "broadcast", "scatter", "send", "recv", "barrier"};

bool is_reduction(Collective collective) {
  return collective == Collective::AllReduce || collective == Collective::ReduceScatter;
}

bool has_root(Collective collective) {
  return collective == Collective::Broadcast || collective == Collective::Scatter;
}

bool is_point_to_point(Collective collective) {
  return collective == Collective::Send || collective == Collective::Recv;
}

} // namespace

std::string_view to_string(Collective collective) {
  return kNames[static_cast<size_t>(collective)];
}

bool Call::matches(const Call& other) const {
  return collective == other.collective && stage == other.stage && (!is_reduction(collective) || op == other.op) &&
      (!has_root(collective) || root == other.root) && (collective == Collective::Barrier || dtype == other.dtype);
}

uint32_t Call::fingerprint() const {
  // A send meets a recv.
  const auto kind = is_point_to_point(collective) ? Collective::Send : collective;
  const auto hash = c10::get_hash(
      static_cast<int>(kind), is_reduction(collective) ? static_cast<int>(op) : 0, has_root(collective) ? root : 0,
      static_cast<int>(dtype), stage);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

std::string Call::to_string() const {
  std::string text(weft::to_string(collective));
  if (is_reduction(collective)) {
    text += "(" + std::string(weft::to_string(op)) + ")";
  } else if (has_root(collective)) {
    text += "(root " + std::to_string(root) + ")";
  } else if (is_point_to_point(collective)) {
    text += (collective == Collective::Send ? "(to member " : "(from member ") + std::to_string(root) + ")";
  }
  if (collective != Collective::Barrier) {
    text += " " + std::string(dtype_text(dtype)) + "[";
    for (size_t d = 0; d < sizes.size(); ++d) {
      text += (d == 0 ? "" : ",") + std::to_string(sizes[d]);
    }
    text += "]";
  }
  return text;
}

} // namespace weft
