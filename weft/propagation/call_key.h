#pragma once

#include "weft/core/layout.h"

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <cstring>

namespace weft {

/// A cache key of everything about a call that can change how it runs: the operator, the specs of its tensors by
/// address, the values of its static arguments, and the types of its other arguments. The hash is computed as the key
/// is built.
class CallKey {
 public:
  /// Differs from any small number that a value could be.
  static constexpr uint64_t kNone = 0x6e6f6e656e6f6e65;
  static constexpr uint64_t kDouble = 1;

  /// Every argument of every call comes here: push_back, which compilers do not inline, would double the cost.
  C10_ALWAYS_INLINE void add(uint64_t word) {
    if (C10_UNLIKELY(words_.size() == words_.capacity())) {
      words_.reserve(words_.size() + 1); // at least doubles
    }
    *words_.end() = word;
    words_.set_size(words_.size() + 1);
    hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15ULL;
    hash_ ^= hash_ >> 29;
  }
  void add(const Layout& layout);
  /// Adds an argument whose value matters.
  void add_static(const c10::IValue& value);
  /// Adds an argument of which only the type matters: ints and floats promote differently.
  void add_type(const c10::IValue& value);
  void add_type(const at::Scalar& value) {
    add(value.isFloatingPoint() ? kDouble : value.isBoolean() ? kBool : value.isComplex() ? kComplex : kInt);
  }
  /// Adds the type of a number or numbers, and their values.
  void add_value(const c10::IValue& value);
  /// Adds the type of a fill value and whether it is zero.
  void add_fill(const c10::IValue& value);

  uint64_t hash() const {
    return hash_;
  }
  friend bool operator==(const CallKey& a, const CallKey& b) {
    return a.hash_ == b.hash_ && a.words_.size() == b.words_.size() &&
        std::memcmp(a.words_.data(), b.words_.data(), a.words_.size() * sizeof(uint64_t)) == 0;
  }

 private:
  static constexpr uint64_t kInt = 2;
  static constexpr uint64_t kBool = 3;
  static constexpr uint64_t kComplex = 4;
  static constexpr uint64_t kOther = 5;

  static uint64_t type_word(const c10::IValue& value) {
    return value.isDouble()       ? kDouble
        : value.isInt()           ? kInt
        : value.isBool()          ? kBool
        : value.isComplexDouble() ? kComplex
                                  : kOther;
  }

  c10::SmallVector<uint64_t, 32> words_;
  uint64_t hash_ = 0;
};

} // namespace weft
