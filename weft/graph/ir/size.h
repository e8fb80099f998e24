#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::graph {

/// A size that is a number, or an expression of symbols where a program takes tensors of many shapes.
///
///   8      s77      2*s77      (s77 + 3)//4      Max(0, Min(3, s77 - 3))
///
/// An immutable value. Its text form is Python's, as torch.export writes it, and parses back.
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

  Size(int64_t number = 0) : number_(number) {}
  static Size symbol(std::string name);
  /// Raises where the text is not of the form above.
  static Size parse(std::string_view text);

  bool is_number() const {
    return term_ == nullptr;
  }
  /// Raises for an expression.
  int64_t number() const;
  bool is_symbol() const {
    return kind() == Kind::Symbol;
  }
  Kind kind() const;
  /// Of a symbol.
  const std::string& name() const;
  /// Of an operation, in order.
  const std::vector<Size>& operands() const;

  /// The number that comes out for these values of the symbols; raises for a symbol without one.
  int64_t evaluate(const Values& values) const;
  /// Every symbol in it, each once, in order of appearance.
  std::vector<std::string> symbols() const;
  /// The same expression of other symbols' values.
  Size substitute(const std::unordered_map<std::string, Size>& sizes) const;

  std::string to_string() const;
  /// Whether they are written alike.
  friend bool operator==(const Size& a, const Size& b);

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, const Size& b);
  /// Rounded down, as Python's // and % do.
  friend Size floor_divide(const Size& a, const Size& b);
  friend Size remainder(const Size& a, const Size& b);
  friend Size power(const Size& a, const Size& b);
  friend Size minimum(const Size& a, const Size& b);
  friend Size maximum(const Size& a, const Size& b);

 private:
  struct Term;

  explicit Size(std::shared_ptr<const Term> term) : term_(std::move(term)) {}
  static Size operation(Kind kind, const Size& a, const Size& b);

  int64_t number_ = 0;
  std::shared_ptr<const Term> term_; // none: a number
};

using Sizes = std::vector<Size>;

} // namespace weft::graph
