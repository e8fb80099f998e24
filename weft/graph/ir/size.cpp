#include "weft/graph/ir/size.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>

namespace weft::graph {

struct Size::Term {
  Kind kind;
  int64_t number = 0; // a number that is too large to be stored inline
  std::string name = {};
  std::vector<Size> operands = {};
  mutable std::atomic<int64_t> references = 1;
};

namespace {

int64_t multiply_sizes(int64_t a, int64_t b) {
  int64_t product = 0;
  TORCH_CHECK_VALUE(!__builtin_mul_overflow(a, b, &product), "[Size] ", a, " * ", b, " is more than a size can be.");
  return product;
}

int64_t divide_down(int64_t a, int64_t b) {
  TORCH_CHECK_VALUE(b != 0, "[Size] a divisor must not be zero, in ", a, "//0.");
  if (b == -1) {
    return multiply_sizes(a, b); // INT64_MIN / -1 overflows
  }
  const auto quotient = a / b;
  return quotient * b != a && ((a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

int64_t add_sizes(int64_t a, int64_t b) {
  int64_t sum = 0;
  TORCH_CHECK_VALUE(!__builtin_add_overflow(a, b, &sum), "[Size] ", a, " + ", b, " is more than a size can be.");
  return sum;
}

int64_t raise_to(int64_t base, int64_t exponent) {
  TORCH_CHECK_VALUE(exponent >= 0 && exponent < 64, "[Size] an exponent must be from 0 to 63, but got ", exponent, ".");
  int64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) {
    result = multiply_sizes(result, base);
  }
  return result;
}

int64_t compute(Size::Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Size::Kind::Sum:
      return add_sizes(a, b);
    case Size::Kind::Difference:
      return add_sizes(a, multiply_sizes(b, -1));
    case Size::Kind::Product:
      return multiply_sizes(a, b);
    case Size::Kind::FloorDivision:
      return divide_down(a, b);
    case Size::Kind::Remainder:
      return add_sizes(a, multiply_sizes(-divide_down(a, b), b));
    case Size::Kind::Power:
      return raise_to(a, b);
    case Size::Kind::Minimum:
      return std::min(a, b);
    case Size::Kind::Maximum:
      return std::max(a, b);
    default:
      TORCH_INTERNAL_ASSERT(false, "a number or a symbol is no operation");
  }
}

/// Python's precedence; numbers, symbols and functions have the highest because they need no parentheses.
int precedence(Size::Kind kind) {
  switch (kind) {
    case Size::Kind::Sum:
    case Size::Kind::Difference:
      return 1;
    case Size::Kind::Product:
    case Size::Kind::FloorDivision:
      return 2;
    case Size::Kind::Power:
      return 3;
    default:
      return 4;
  }
}

std::string operator_text(Size::Kind kind) {
  switch (kind) {
    case Size::Kind::Sum:
      return " + ";
    case Size::Kind::Difference:
      return " - ";
    case Size::Kind::Product:
      return "*";
    case Size::Kind::FloorDivision:
      return "//";
    default:
      return "**";
  }
}

bool is_name_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Sums of products of powers, by recursive descent.
class SizeParser {
 public:
  explicit SizeParser(std::string_view text) : text_(text) {}

  Size run() {
    const auto size = sum();
    skip_space();
    check(at_ == text_.size(), "the end");
    return size;
  }

 private:
  // Limits the nesting to protect the stack: a sum nests as deep as it has terms. No real program comes near the
  // limits.
  static constexpr int kMaxDepth = 200;
  static constexpr int kMaxTerms = 2000;

  void check(bool condition, const char* expected) const {
    TORCH_CHECK_VALUE(
        condition, "[Size] ", expected, " is required at position ", at_, " of \"", text_.substr(0, 200), "\".");
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') {
      ++at_;
    }
  }
  bool take(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) {
      return false;
    }
    at_ += token.size();
    return true;
  }

  Size sum() {
    auto result = product();
    while (true) {
      if (take("+")) {
        result = result + product();
      } else if (take("-")) {
        result = result - product();
      } else {
        return result;
      }
    }
  }

  Size product() {
    auto result = power_of();
    while (true) {
      skip_space();
      if (text_.substr(at_, 2) != "**" && take("*")) {
        result = result * power_of();
      } else if (take("//")) {
        result = floor_divide(result, power_of());
      } else if (take("%")) {
        result = remainder(result, power_of());
      } else {
        return result;
      }
    }
  }

  Size power_of() {
    check(++depth_ < kMaxDepth && ++terms_ < kMaxTerms, "an expression that is shorter or less nested");
    Size result;
    if (take("-")) {
      result = Size(-1) * power_of();
    } else {
      result = atom();
      result = take("**") ? power(result, power_of()) : result;
    }
    --depth_;
    return result;
  }

  Size atom() {
    skip_space();
    check(at_ < text_.size(), "a size");
    Size result;
    if (take("(")) {
      result = sum();
      check(take(")"), "')'");
    } else if (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      result = number();
    } else {
      result = named();
    }
    return result;
  }

  Size number() {
    int64_t value = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      value = add_sizes(multiply_sizes(value, 10), text_[at_++] - '0');
    }
    return value;
  }

  Size named() {
    const auto begin = at_;
    while (at_ < text_.size() && is_name_letter(text_[at_])) {
      ++at_;
    }
    check(at_ > begin, "a size");
    const auto name = text_.substr(begin, at_ - begin);
    return take("(") ? function(name) : Size::symbol(std::string(name));
  }

  Size function(std::string_view name) {
    std::vector<Size> operands = {sum()};
    while (take(",")) {
      operands.push_back(sum());
    }
    check(take(")"), "')'");
    check(operands.size() >= 2, "a function of two or more sizes");
    auto result = operands[0];
    for (size_t i = 1; i < operands.size(); ++i) {
      result = apply(name, result, operands[i]);
    }
    return result;
  }

  Size apply(std::string_view name, const Size& a, const Size& b) const {
    if (name == "Max") {
      return maximum(a, b);
    }
    if (name == "Min") {
      return minimum(a, b);
    }
    if (name == "Mod" || name == "PythonMod") {
      return remainder(a, b);
    }
    if (name == "CeilDiv") {
      return floor_divide(a + b - Size(1), b);
    }
    check(name == "FloorDiv" || name == "CleanDiv", "Max, Min, Mod, CeilDiv or FloorDiv");
    return floor_divide(a, b);
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  int terms_ = 0;
};

void collect(const Size& size, std::vector<std::string>& names) {
  if (size.is_number()) {
    return;
  }
  if (size.is_symbol()) {
    if (std::find(names.begin(), names.end(), size.name()) == names.end()) {
      names.push_back(size.name());
    }
    return;
  }
  for (const auto& operand : size.operands()) {
    collect(operand, names);
  }
}

} // namespace

Size Size::symbol(std::string name) {
  return of(new Term{.kind = Kind::Symbol, .name = std::move(name)});
}

Size Size::parse(std::string_view text) {
  return SizeParser(text).run();
}

Size Size::of(const Term* term) {
  Size size;
  size.bits_ = reinterpret_cast<uint64_t>(term);
  return size;
}

void Size::set_large(int64_t number) {
  bits_ = reinterpret_cast<uint64_t>(new Term{.kind = Kind::Number, .number = number});
}

int64_t Size::large_number() const {
  TORCH_CHECK_VALUE(kind() == Kind::Number, "[Size] a number is required, but got ", to_string(), ".");
  return term().number;
}

void Size::share() const {
  term().references.fetch_add(1, std::memory_order_relaxed);
}

void Size::release() const {
  if (term().references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete &term();
  }
}

Size::Kind Size::kind() const {
  return is_small() ? Kind::Number : term().kind;
}

const std::string& Size::name() const {
  TORCH_INTERNAL_ASSERT(is_symbol());
  return term().name;
}

const std::vector<Size>& Size::operands() const {
  static const std::vector<Size> none;
  return is_small() ? none : term().operands;
}

int64_t Size::evaluate(const Values& values) const {
  if (is_number()) {
    return number();
  }
  if (is_symbol()) {
    const auto found = values.find(term().name);
    TORCH_CHECK_VALUE(found != values.end(), "[Size] the symbol ", term().name, " has no value.");
    return found->second;
  }
  return compute(term().kind, term().operands[0].evaluate(values), term().operands[1].evaluate(values));
}

std::vector<std::string> Size::symbols() const {
  std::vector<std::string> names;
  collect(*this, names);
  return names;
}

Size Size::substitute(const std::unordered_map<std::string, Size>& sizes) const {
  if (is_number()) {
    return *this;
  }
  if (is_symbol()) {
    const auto found = sizes.find(term().name);
    return found == sizes.end() ? *this : found->second;
  }
  return operation(term().kind, term().operands[0].substitute(sizes), term().operands[1].substitute(sizes));
}

std::string Size::to_string() const {
  if (is_number()) {
    return std::to_string(number());
  }
  if (is_symbol()) {
    return term().name;
  }
  const auto& a = term().operands[0];
  const auto& b = term().operands[1];
  switch (term().kind) {
    case Kind::Remainder:
      return "Mod(" + a.to_string() + ", " + b.to_string() + ")";
    case Kind::Minimum:
      return "Min(" + a.to_string() + ", " + b.to_string() + ")";
    case Kind::Maximum:
      return "Max(" + a.to_string() + ", " + b.to_string() + ")";
    default:
      break;
  }
  const auto own = precedence(term().kind);
  const auto nested = [own](const Size& operand, bool is_right) {
    const bool is_negative = operand.is_number() && operand.number() < 0;
    const auto inner = precedence(operand.kind());
    const auto text = operand.to_string();
    return is_negative || inner < own || (inner == own && is_right) ? "(" + text + ")" : text;
  };
  // ** groups to the right, unlike the other operators.
  const bool right = term().kind != Kind::Power;
  return nested(a, !right) + operator_text(term().kind) + nested(b, right);
}

bool operator==(const Size& a, const Size& b) {
  if (a.kind() != b.kind()) {
    return false;
  }
  if (a.is_number()) {
    return a.number() == b.number();
  }
  return a.bits_ == b.bits_ || (a.term().name == b.term().name && a.term().operands == b.term().operands);
}

Size Size::operation(Kind kind, const Size& a, const Size& b) {
  if (a.is_number() && b.is_number()) {
    return compute(kind, a.number(), b.number());
  }
  const bool is_sum = kind == Kind::Sum || kind == Kind::Difference;
  const bool is_product = kind == Kind::Product || kind == Kind::FloorDivision;
  if ((is_sum && b == Size(0)) || ((is_product || kind == Kind::Power) && b == Size(1))) {
    return a;
  }
  if ((kind == Kind::Sum && a == Size(0)) || (kind == Kind::Product && a == Size(1))) {
    return b;
  }
  if ((kind == Kind::Minimum || kind == Kind::Maximum) && a == b) {
    return a;
  }
  return of(new Term{.kind = kind, .operands = {a, b}});
}

Size operator+(const Size& a, const Size& b) {
  return Size::operation(Size::Kind::Sum, a, b);
}
Size operator-(const Size& a, const Size& b) {
  return Size::operation(Size::Kind::Difference, a, b);
}
Size operator*(const Size& a, const Size& b) {
  return Size::operation(Size::Kind::Product, a, b);
}
Size floor_divide(const Size& a, const Size& b) {
  return Size::operation(Size::Kind::FloorDivision, a, b);
}
Size remainder(const Size& a, const Size& b) {
  return Size::operation(Size::Kind::Remainder, a, b);
}
Size power(const Size& a, const Size& b) {
  return Size::operation(Size::Kind::Power, a, b);
}
Size minimum(const Size& a, const Size& b) {
  return Size::operation(Size::Kind::Minimum, a, b);
}
Size maximum(const Size& a, const Size& b) {
  return Size::operation(Size::Kind::Maximum, a, b);
}

} // namespace weft::graph
