#include "weft/comm/collective.h"

#include "weft/comm/subject_scope.h"
#include "weft/core/dtype_text.h"

#include <array>

namespace weft {

namespace {

constexpr std::array<std::string_view, 10> kNames = {"all_gather", "all_to_all",   "reduce_scatter", "all_reduce",
                                                     "broadcast",  "scatter",      "send",           "recv",
                                                     "barrier",    "compare_seeds"};

bool is_reduction(Collective collective) {
  return collective == Collective::AllReduce || collective == Collective::ReduceScatter;
}

bool has_root(Collective collective) {
  return collective == Collective::Broadcast || collective == Collective::Scatter;
}

/// The kind by which calls are matched: a send matches a recv.
Collective kind_of(Collective collective) {
  return is_message(collective) ? Collective::Send : collective;
}

} // namespace

bool is_message(Collective collective) {
  return collective == Collective::Send || collective == Collective::Recv;
}

std::string_view to_string(Collective collective) {
  return kNames[static_cast<size_t>(collective)];
}

bool Call::matches(const Call& other) const {
  const bool same_dtype = dtype == other.dtype || !has_tensor() || !other.has_tensor();
  return kind_of(collective) == kind_of(other.collective) && stage == other.stage && subject == other.subject &&
      (!is_reduction(collective) || op == other.op) && (!has_root(collective) || root == other.root) && same_dtype;
}

uint64_t Call::fingerprint() const {
  const auto root_bits = has_root(collective) ? static_cast<uint32_t>(root) & 0xffff : 0;
  const auto dtype_bits = static_cast<uint32_t>(dtype) & 0x7f;
  const auto op_bits = is_reduction(collective) ? static_cast<uint32_t>(op) : 0;
  const auto kind_bits = static_cast<uint32_t>(kind_of(collective));
  const auto call_bits =
      root_bits << 16 | dtype_bits << 9 | op_bits << 6 | kind_bits << 2 | (static_cast<uint32_t>(stage) & 3);
  return static_cast<uint64_t>(subject) << 32 | call_bits;
}

std::string Call::to_string() const {
  std::string text(weft::to_string(collective));
  if (is_reduction(collective)) {
    text += "(" + std::string(weft::to_string(op)) + ")";
  } else if (has_root(collective)) {
    text += "(root " + std::to_string(root) + ")";
  } else if (is_message(collective)) {
    text += (collective == Collective::Send ? "(to member " : "(from member ") + std::to_string(root) + ")";
  }
  if (has_tensor()) {
    text += " " + std::string(dtype_text(dtype)) + "[";
    for (size_t d = 0; d < sizes.size(); ++d) {
      text += (d == 0 ? "" : ",") + std::to_string(sizes[d]);
    }
    text += "]";
  }
  if (subject != 0) {
    text += " of " + subject_text(subject);
  }
  return text;
}

} // namespace weft
