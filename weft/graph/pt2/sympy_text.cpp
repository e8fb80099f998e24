#include "weft/graph/pt2/sympy_text.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

namespace weft::graph {

namespace {

// Limits the nesting to protect the stack: sizes nest as deep as they have terms. No real program comes near it.
constexpr int kMaxTerms = 1000;

/// A fraction, because subexpressions of an integer expression may be no integers: the half of a sum, say.
struct Fraction {
  Size top;
  Size bottom = 1;

  bool is_integer() const {
    return bottom == Size(1);
  }
  Size rounded_down() const {
    return floor_divide(top, bottom);
  }
  Size rounded_up() const {
    return is_integer() ? top : floor_divide(top + bottom - Size(1), bottom);
  }
};

Fraction operator*(const Fraction& a, const Fraction& b) {
  return {a.top * b.top, a.bottom * b.bottom};
}

bool is_taken_away(const Size& size) {
  const bool is_product = size.kind() == Size::Kind::Product;
  const auto& factor = is_product ? size.operands()[0] : size;
  return factor.is_number() && factor.number() < 0;
}

/// Orders the terms as people write them: numbers last, and negative terms subtracted.
Size sum(const std::vector<Size>& terms) {
  std::optional<Size> result;
  Size constant = 0;
  for (const auto& term : terms) {
    if (term.is_number()) {
      constant = constant + term;
    } else if (result && is_taken_away(term)) {
      result = *result - (Size(-1) * term.operands()[0]) * term.operands()[1];
    } else {
      result = result ? *result + term : term;
    }
  }
  if (!result) {
    return constant;
  }
  return is_taken_away(constant) ? *result - Size(-1) * constant : *result + constant;
}

/// Parses calls of functions, whose arguments are calls, numbers and quoted names.
class SympyParser {
 public:
  explicit SympyParser(std::string_view text) : text_(text) {}

  std::optional<Size> run() {
    const auto result = call();
    if (!result || at_ != text_.size()) {
      return std::nullopt;
    }
    return result->rounded_down();
  }

 private:
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) {
      return false;
    }
    ++at_;
    return true;
  }
  std::string_view word() {
    skip_space();
    const auto begin = at_;
    const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    while (at_ < text_.size() && is_letter(text_[at_])) {
      ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  std::optional<Fraction> call() {
    if (++terms_ > kMaxTerms) {
      return std::nullopt;
    }
    const auto name = word();
    if (name.empty() || !take('(')) {
      return std::nullopt;
    }
    if (name == "Integer" || name == "Rational") {
      return number(name == "Rational");
    }
    if (name == "Symbol") {
      return symbol();
    }
    std::vector<Fraction> arguments;
    do {
      const auto argument = call();
      if (!argument) {
        return std::nullopt;
      }
      arguments.push_back(*argument);
    } while (take(','));
    return take(')') ? apply(name, arguments) : std::nullopt;
  }

  std::optional<int64_t> literal() {
    const bool is_minus = take('-');
    const auto digits = word();
    if (digits.empty() || digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string_view::npos) {
      return std::nullopt;
    }
    const auto value = static_cast<int64_t>(std::stoll(std::string(digits)));
    return is_minus ? -value : value;
  }

  std::optional<Fraction> number(bool has_denominator) {
    const auto top = literal();
    const auto bottom = has_denominator && take(',') ? literal()
        : has_denominator                            ? std::nullopt
                                                     : std::optional<int64_t>(1);
    if (!top || !bottom || *bottom <= 0 || !take(')')) {
      return std::nullopt;
    }
    return Fraction{*top, *bottom};
  }

  /// Parses 's77' and the assumptions after it, as in `positive=True, integer=True`.
  std::optional<Fraction> symbol() {
    if (!take('\'')) {
      return std::nullopt;
    }
    const auto name = word();
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0 || !take('\'')) {
      return std::nullopt;
    }
    while (take(',')) {
      if (word().empty() || !take('=') || word().empty()) {
        return std::nullopt;
      }
    }
    if (!take(')')) {
      return std::nullopt;
    }
    return Fraction{Size::symbol(std::string(name))};
  }

  static std::optional<Fraction> apply(std::string_view name, const std::vector<Fraction>& arguments) {
    if (name == "Add") {
      return add(arguments);
    }
    if (name == "Mul") {
      auto result = arguments[0];
      for (size_t i = 1; i < arguments.size(); ++i) {
        result = result * arguments[i];
      }
      return result;
    }
    if (arguments.size() == 1) {
      return of_one(name, arguments[0]);
    }
    if (name == "Max" || name == "Min") {
      auto result = arguments[0].rounded_down();
      for (size_t i = 1; i < arguments.size(); ++i) {
        const auto other = arguments[i].rounded_down();
        result = name == "Max" ? maximum(result, other) : minimum(result, other);
      }
      return Fraction{result};
    }
    return arguments.size() == 2 ? of_two(name, arguments[0], arguments[1]) : std::nullopt;
  }

  static Fraction add(const std::vector<Fraction>& terms) {
    Size bottom = 1;
    for (const auto& term : terms) {
      bottom = term.bottom == bottom ? bottom : bottom * term.bottom;
    }
    std::vector<Size> tops;
    for (const auto& term : terms) {
      tops.push_back(term.bottom == bottom ? term.top : floor_divide(term.top * bottom, term.bottom));
    }
    return {sum(tops), bottom};
  }

  static std::optional<Fraction> of_one(std::string_view name, const Fraction& a) {
    if (name == "Identity" || name == "ToFloat") {
      return a;
    }
    if (name == "FloorToInt") {
      return Fraction{a.rounded_down()};
    }
    if (name == "CeilToInt") {
      return Fraction{a.rounded_up()};
    }
    return std::nullopt;
  }

  static std::optional<Fraction> of_two(std::string_view name, const Fraction& a, const Fraction& b) {
    if (name == "IntTrueDiv" || name == "FloatTrueDiv") {
      return Fraction{a.top * b.bottom, a.bottom * b.top};
    }
    if (!b.is_integer()) {
      return std::nullopt;
    }
    if (name == "Pow" && b.top == Size(-1)) {
      return Fraction{a.bottom, a.top};
    }
    if (!a.is_integer()) {
      return std::nullopt;
    }
    if (name == "Pow" || name == "PowByNatural") {
      const bool is_natural = b.top.is_number() && b.top.number() >= 0 && b.top.number() < 64;
      return is_natural ? std::optional(Fraction{power(a.top, b.top)}) : std::nullopt;
    }
    if (name == "FloorDiv" || name == "CleanDiv") {
      return Fraction{floor_divide(a.top, b.top)};
    }
    if (name == "CeilDiv") {
      return Fraction{floor_divide(a.top + b.top - Size(1), b.top)};
    }
    if (name == "Mod" || name == "PythonMod") {
      return Fraction{remainder(a.top, b.top)};
    }
    return std::nullopt;
  }

  std::string_view text_;
  size_t at_ = 0;
  int terms_ = 0;
};

const char* sympy_function(Size::Kind kind) {
  switch (kind) {
    case Size::Kind::Sum:
    case Size::Kind::Difference:
      return "Add";
    case Size::Kind::Product:
      return "Mul";
    case Size::Kind::FloorDivision:
      return "FloorDiv";
    case Size::Kind::Remainder:
      return "Mod";
    case Size::Kind::Power:
      return "Pow";
    case Size::Kind::Minimum:
      return "Min";
    default:
      return "Max";
  }
}

} // namespace

std::optional<Size> size_of_sympy(std::string_view text) {
  try {
    return SympyParser(text).run();
  } catch (const c10::ValueError&) {
    return std::nullopt; // a number too large for a size, or divided by zero
  }
}

std::string sympy_of_size(const Size& size) {
  if (size.is_number()) {
    return "Integer(" + std::to_string(size.number()) + ")";
  }
  if (size.is_symbol()) {
    const bool is_unbacked = size.name()[0] == 'u';
    return "Symbol('" + size.name() + (is_unbacked ? "', integer=True)" : "', positive=True, integer=True)");
  }
  const auto a = sympy_of_size(size.operands()[0]);
  auto b = sympy_of_size(size.operands()[1]);
  if (size.kind() == Size::Kind::Difference) {
    b = "Mul(Integer(-1), " + b + ")";
  }
  return c10::str(sympy_function(size.kind()), "(", a, ", ", b, ")");
}

} // namespace weft::graph
