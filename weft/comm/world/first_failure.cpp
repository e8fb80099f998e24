#include "weft/comm/world/first_failure.h"

#include <c10/util/Exception.h>

namespace weft {

bool FirstFailure::has_happened() const {
  const std::lock_guard lock(mutex_);
  return !text_.empty();
}

void FirstFailure::record(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (text_.empty()) {
    text_ = text;
  }
}

void FirstFailure::fail(const Group& group, const Call& call, std::string_view what, std::string_view advice) {
  const auto text = c10::str(
      "[", call.to_string(), "] call ", call.sequence, " of ", group.to_string(), " failed on rank ",
      group.ranks()[group.rank()], ": ", what);
  record(text);
  TORCH_CHECK_WITH(DistBackendError, false, text, ". ", advice, ".");
}

void FirstFailure::check_none(const Group& group, const Call& call) const {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(
      DistBackendError, text_.empty(), "[", call.to_string(), "] ", group.to_string(),
      " cannot be used any more, because an earlier call failed: ", text_, ". Restart the ranks.");
}

} // namespace weft
