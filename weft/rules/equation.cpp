#include "weft/rules/equation.h"

#include <algorithm>
#include <map>

namespace weft {

bool Equation::is_contraction() const {
  std::map<char, int> occurrences;
  const auto count = [&](const std::string& letters) {
    for (const auto letter : letters) {
      if (std::count(letters.begin(), letters.end(), letter) > 1) {
        return false;
      }
      ++occurrences[letter];
    }
    return true;
  };
  return std::all_of(inputs.begin(), inputs.end(), count) && count(output) &&
      std::all_of(occurrences.begin(), occurrences.end(), [](const auto& entry) { return entry.second > 1; });
}

bool Equation::fits(c10::ArrayRef<c10::IntArrayRef> sizes) const {
  std::map<char, int64_t> size_of;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (sizes.size() != inputs.size() || sizes[i].size() != inputs[i].size()) {
      return false;
    }
    for (size_t d = 0; d < inputs[i].size(); ++d) {
      if (size_of.emplace(inputs[i][d], sizes[i][d]).first->second != sizes[i][d]) {
        return false;
      }
    }
  }
  return true;
}

std::optional<Equation> parse_equation(std::string_view text) {
  std::string letters;
  std::copy_if(text.begin(), text.end(), std::back_inserter(letters), [](char c) { return c != ' '; });
  const auto arrow = letters.find("->");
  Equation equation;
  equation.inputs.emplace_back();
  for (const auto letter : letters.substr(0, arrow)) {
    if (letter == ',') {
      equation.inputs.emplace_back();
    } else if (std::isalpha(static_cast<unsigned char>(letter)) != 0) {
      equation.inputs.back() += letter;
    } else {
      return std::nullopt;
    }
  }
  if (arrow != std::string::npos) {
    equation.output = letters.substr(arrow + 2);
    const bool is_plain = std::all_of(equation.output.begin(), equation.output.end(), [](char c) {
      return std::isalpha(static_cast<unsigned char>(c)) != 0;
    });
    return is_plain ? std::optional(equation) : std::nullopt;
  }
  std::map<char, int> occurrences;
  for (const auto& input : equation.inputs) {
    for (const auto letter : input) {
      ++occurrences[letter];
    }
  }
  for (const auto& [letter, count] : occurrences) {
    equation.output += count == 1 ? std::string(1, letter) : "";
  }
  return equation;
}

} // namespace weft
