#include "weft/propagation/call_key.h"

#include <bit>

namespace weft {

void CallKey::add(const Layout& layout) {
  add(layout.ndim());
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    const auto& placement = layout[m];
    const auto kind = placement.is_shard() ? 1 : placement.is_partial() ? 2 : 0;
    add(static_cast<uint64_t>(placement.is_partial() ? static_cast<int64_t>(placement.reduce_op()) : placement.dim())
            << 2 |
        kind);
    add(static_cast<uint64_t>(placement.blocks_id()) << 4 | layout.shard_position(m));
  }
}

void CallKey::add_static(const c10::IValue& value) {
  if (value.isInt()) {
    add(value.toInt());
  } else if (value.isBool()) {
    add(value.toBool() ? 1 : 0);
  } else if (value.isDouble()) {
    add(kDouble);
    add(std::bit_cast<uint64_t>(value.toDouble()));
  } else if (value.isNone()) {
    add(kNone);
  } else if (value.isList()) {
    const auto list = value.toListRef();
    add(list.size());
    for (const auto& item : list) {
      item.isInt() ? add(item.toInt()) : add_static(item);
    }
  } else if (value.isString()) {
    const auto text = value.toStringView();
    add(text.size());
    for (const auto letter : text) {
      add(static_cast<uint8_t>(letter));
    }
  } else if (value.isDevice()) {
    const auto device = value.toDevice();
    add(static_cast<uint64_t>(device.type()) << 8 | static_cast<uint8_t>(device.index()));
  } else if (value.isObject()) {
    add(reinterpret_cast<uintptr_t>(value.toObject().get())); // a TorchScript class
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, "[dispatch] arguments of type ", value.tagKind(), " are not known on distributed tensors.");
  }
}

void CallKey::add_value(const c10::IValue& value) {
  add_type(value);
  if (value.isDouble()) {
    add(std::bit_cast<uint64_t>(value.toDouble()));
  } else if (value.isInt() || value.isBool()) {
    add(value.toScalar().to<int64_t>());
  } else if (value.isComplexDouble()) {
    add(std::bit_cast<uint64_t>(value.toComplexDouble().real()));
    add(std::bit_cast<uint64_t>(value.toComplexDouble().imag()));
  } else if (value.isList()) {
    for (const auto& item : value.toListRef()) {
      add_value(item);
    }
  }
}

void CallKey::add_fill(const c10::IValue& value) {
  add_type(value);
  add(value.isScalar() && value.toScalar().equal(0) ? 1 : 0);
}

void CallKey::add_type(const c10::IValue& value) {
  if (value.isNone()) {
    add(kNone);
  } else if (value.isList()) {
    const auto list = value.toListRef();
    add(list.size());
    for (const auto& item : list) {
      add(type_word(item));
    }
  } else if (value.isDoubleList()) {
    add(value.toDoubleList().size());
  } else {
    add(type_word(value));
  }
}

} // namespace weft
