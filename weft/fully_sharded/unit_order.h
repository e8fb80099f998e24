#pragma once

#include <memory>
#include <vector>

namespace weft {

class Unit;

using Units = std::vector<std::weak_ptr<Unit>>;

/// The order in which units began in the last pass, and the place in it that the pass under way has reached. A unit that is used
/// twice is in it twice.
///
///   order.begin_pass();
///   order.next(unit);   // the unit that began after it in the last pass
class UnitOrder {
 public:
  /// What began since the last call becomes the order, unless nothing did.
  void begin_pass();
  /// A unit begins. Returns the one that will probably be next, if any.
  std::weak_ptr<Unit> next(Unit& unit);
  /// Whether a unit has begun as the last one of the last pass.
  bool is_last(const Unit& unit) const;
  /// Those of the last pass.
  const Units& last() const {
    return last_;
  }

 private:
  Units last_;
  Units now_;
  size_t reached_ = 0; // in last_
};

} // namespace weft
