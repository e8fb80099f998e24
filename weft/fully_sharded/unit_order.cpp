#include "weft/fully_sharded/unit_order.h"

#include "weft/fully_sharded/unit.h"

#include <algorithm>

namespace weft {

void UnitOrder::begin_pass() {
  if (!now_.empty()) {
    last_ = std::exchange(now_, {});
  }
  reached_ = 0;
}

std::weak_ptr<Unit> UnitOrder::next(Unit& unit) {
  now_.push_back(unit.weak_from_this());
  const auto is_unit = [&](const std::weak_ptr<Unit>& each) { return each.lock().get() == &unit; };
  // Units of the last pass may be left out in this one.
  auto found = std::find_if(last_.begin() + static_cast<int64_t>(reached_), last_.end(), is_unit);
  found = found == last_.end() ? std::find_if(last_.begin(), last_.end(), is_unit) : found;
  if (found == last_.end()) {
    return {};
  }
  reached_ = found - last_.begin() + 1;
  return reached_ < last_.size() ? last_[reached_] : std::weak_ptr<Unit>();
}

bool UnitOrder::is_last(const Unit& unit) const {
  return !last_.empty() && reached_ == last_.size() && last_.back().lock().get() == &unit;
}

} // namespace weft
