#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weft::graph {

/// A size: a number, or an expression of symbols if the program accepts tensors of several shapes.
///
///   8      s77      2*s77      (s77 + 3)//4      Max(0, Min(3, s77 - 3))
///
/// An immutable value of eight bytes, because every tensor of a program has several. Its text form is Python's, as
/// torch.export writes it, and parses back.
class Size {
 public:
  enum class Kind : uint8_t {
    Number,
    Symbol,
    Sum,
    Difference,
    Product,
    FloorDivision,
    Remainder,
    Power,
    Minimum,
    Maximum
  };
  using Values = std::unordered_map<std::string, int64_t>;

  Size(int64_t number = 0) : bits_(2 * static_cast<uint64_t>(number) + 1) {
    if (small_number() != number) {
      set_large(number);
    }
  }
  Size(const Size& other) : bits_(other.bits_) {
    if (!is_small()) {
      share();
    }
  }
  Size(Size&& other) noexcept : bits_(std::exchange(other.bits_, kZero)) {}
  Size& operator=(Size other) noexcept {
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~Size() {
    if (!is_small()) {
      release();
    }
  }
  static Size symbol(std::string name);
  /// Raises if the text does not have the form above.
  static Size parse(std::string_view text);

  bool is_number() const {
    return is_small() || kind() == Kind::Number;
  }
  /// Raises for an expression.
  int64_t number() const {
    return is_small() ? small_number() : large_number();
  }
  bool is_symbol() const {
    return kind() == Kind::Symbol;
  }
  Kind kind() const;
  /// The name of a symbol.
  const std::string& name() const;
  /// The operands of an operation, in order.
  const std::vector<Size>& operands() const;

  /// The number for these values of the symbols; raises for a symbol without a value.
  int64_t evaluate(const Values& values) const;
  /// Every symbol of the expression, once, in order of appearance.
  std::vector<std::string> symbols() const;
  /// The expression with symbols replaced by other expressions.
  Size substitute(const std::unordered_map<std::string, Size>& sizes) const;

  std::string to_string() const;
  /// Whether both are written in the same way: s0 + 1 and 1 + s0 differ.
  friend bool operator==(const Size& a, const Size& b);

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);
  /// Rounds down, as Python's // and % do.
  friend Size floor_divide(const Size& a, const Size& b);
  friend Size remainder(const Size& a, const Size& b);
  friend Size power(const Size& a, const Size& b);
  friend Size minimum(const Size& a, const Size& b);
  friend Size maximum(const Size& a, const Size& b);

 private:
  struct Term;
  static constexpr uint64_t kZero = 1;

  /// Takes ownership of the only reference to a new term.
  static Size of(const Term* term);
  static Size operation(Kind kind, const Size& a, const Size& b);

  bool is_small() const {
    return (bits_ & 1) != 0;
  }
  int64_t small_number() const {
    return static_cast<int64_t>(bits_) >> 1;
  }
  const Term& term() const {
    return *reinterpret_cast<const Term*>(bits_);
  }
  void set_large(int64_t number);
  int64_t large_number() const;
  void share() const;
  void release() const;

  uint64_t bits_; // a number of 63 bits followed by a bit that is 1, or the address of a term
};

/// Stores up to four dims inline.
using Sizes = c10::SmallVector<Size, 4>;

} // namespace weft::graph
