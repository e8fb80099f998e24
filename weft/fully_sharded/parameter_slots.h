#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace weft {

class Unit;

/// The places in which modules keep the parameters of a unit. A tied parameter has several. What someone else puts there is noticed:
/// it becomes the unit's parameter, or is an error, but never lost.
class ParameterSlots {
 public:
  virtual ~ParameterSlots() = default;

  /// Puts parameters, gathered ones or the shards, into their slots.
  void put(c10::ArrayRef<at::Tensor> parameters);
  /// The unit takes the parameters that were assigned to its modules since the last put(), as load_state_dict(assign=True) does.
  void adopt_replaced(Unit& unit);

 protected:
  struct Slot {
    std::string name;
    size_t number; // of the parameter in the unit
  };

  /// `leaves` are in the slots.
  ParameterSlots(std::vector<Slot> slots, std::vector<at::Tensor> leaves)
      : slots_(std::move(slots)), shown_(std::move(leaves)) {}

  /// The tensor in a slot; undefined if the module no longer has it.
  virtual at::Tensor get(size_t slot) const = 0;
  virtual void set(size_t slot, const at::Tensor& parameter) = 0;

 private:
  at::Tensor checked(size_t slot) const;
  bool is_replaced(size_t slot) const {
    return !checked(slot).is_same(shown_[slots_[slot].number]);
  }

  std::vector<Slot> slots_;
  std::vector<at::Tensor> shown_; // by their numbers
};

} // namespace weft
