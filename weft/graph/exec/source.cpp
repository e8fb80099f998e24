#include "weft/graph/exec/source.h"

#include <ATen/ScalarOps.h>

namespace weft::graph {

namespace {

c10::IValue list_of(const ListSource& list, Frame& frame) {
  if (list.element_type->kind() == c10::TypeKind::IntType) {
    c10::List<int64_t> numbers;
    numbers.reserve(list.elements.size());
    for (const auto& element : list.elements) {
      numbers.push_back(element.take(frame).toInt());
    }
    return numbers;
  }
  c10::impl::GenericList values(list.element_type);
  values.reserve(list.elements.size());
  for (const auto& element : list.elements) {
    values.push_back(element.take(frame));
  }
  return values;
}

} // namespace

c10::IValue Source::take(Frame& frame) const {
  switch (kind) {
    case Kind::Constant:
      return constant;
    case Kind::Copy:
      return frame.slots[slot];
    case Kind::Move:
      return std::move(frame.slots[slot]);
    case Kind::AsDouble:
      return frame.slots[slot].toScalar().toDouble();
    case Kind::AsTensor: {
      auto tensor = at::scalar_to_tensor(frame.slots[slot].toScalar());
      tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
      return tensor;
    }
    case Kind::List:
      return list_of(*list, frame);
  }
  TORCH_INTERNAL_ASSERT(false);
}

} // namespace weft::graph
