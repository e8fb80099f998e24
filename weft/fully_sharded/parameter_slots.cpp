#include "weft/fully_sharded/parameter_slots.h"

#include "weft/fully_sharded/first_error.h"
#include "weft/fully_sharded/unit.h"

#include <c10/util/Exception.h>

namespace weft {

at::Tensor ParameterSlots::checked(size_t slot) const {
  auto parameter = get(slot);
  TORCH_CHECK_VALUE(
      parameter.defined(), "[fully_shard] the parameter '", slots_[slot].name,
      "' of a fully sharded module is required, but it was deleted. Delete it before fully_shard.");
  return parameter;
}

void ParameterSlots::put(c10::ArrayRef<at::Tensor> parameters) {
  // Errors are raised after all are in their slots, so that a module is not left with gathered parameters.
  FirstError errors;
  std::string replaced;
  for (size_t i = 0; i < slots_.size(); ++i) {
    errors.run([&] {
      const bool was_replaced = is_replaced(i);
      set(i, parameters[slots_[i].number]);
      replaced = was_replaced ? slots_[i].name : replaced;
    });
  }
  shown_ = parameters.vec();
  errors.rethrow();
  TORCH_CHECK_VALUE(
      replaced.empty(), "[fully_shard] parameters that are replaced between steps alone are required, but '", replaced,
      "' was while it is gathered. Write to it between steps, with copy_.");
}

void ParameterSlots::adopt_replaced(Unit& unit) {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const auto number = slots_[i].number;
    if (!is_replaced(i) || !shown_[number].is_same(unit.leaves()[number])) {
      continue; // put() says what is wrong with one that was replaced while it is gathered
    }
    const auto given = checked(i);
    for (size_t k = 0; k < slots_.size(); ++k) {
      TORCH_CHECK_VALUE(
          slots_[k].number != number || checked(k).is_same(given),
          "[fully_shard] a tied parameter is replaced under all of its names, but '", slots_[k].name,
          "' is another tensor now. Assign the same one to each.");
    }
    unit.replace_leaf(number, given);
    shown_[number] = given;
  }
}

} // namespace weft
