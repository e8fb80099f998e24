#pragma once

#include "weft/graph/exec/frame.h"

#include <memory>

namespace weft::graph {

struct ListSource;

/// Where an argument of a call comes from at run time: a constant, a slot, or a list of these.
struct Source {
  /// AsTensor: a number for a tensor argument, which becomes a tensor as in Python.
  enum class Kind : uint8_t { Constant, Copy, Move, AsDouble, AsTensor, List };

  static Source constant_of(c10::IValue value) {
    Source source;
    source.constant = std::move(value);
    return source;
  }
  static Source slot_of(uint32_t slot, bool is_last_use) {
    Source source;
    source.kind = is_last_use ? Kind::Move : Kind::Copy;
    source.slot = slot;
    return source;
  }

  /// Takes a value out of its slot at its last use, so that its memory is freed as soon as the call is done.
  void push(Frame& frame) const {
    switch (kind) {
      case Kind::Constant:
        frame.stack.push_back(constant);
        break;
      case Kind::Copy:
        frame.stack.push_back(frame.slots[slot]);
        break;
      case Kind::Move:
        frame.stack.push_back(std::move(frame.slots[slot]));
        break;
      default:
        frame.stack.push_back(take(frame));
    }
  }
  c10::IValue take(Frame& frame) const;

  Kind kind = Kind::Constant;
  uint32_t slot = 0;
  c10::IValue constant;
  std::shared_ptr<const ListSource> list;
};

struct ListSource {
  c10::TypePtr element_type;
  std::vector<Source> elements;
};

} // namespace weft::graph
