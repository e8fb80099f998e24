#include "weft/styles/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>

namespace weft::nn {

namespace {

constexpr size_t kMost = 3;

std::string with_stars_for_numbers(const std::string& name) {
  std::string result;
  for (size_t begin = 0; begin <= name.size();) {
    const auto end = std::min(name.find('.', begin), name.size());
    const auto step = name.substr(begin, end - begin);
    const bool is_number =
        !step.empty() && std::all_of(step.begin(), step.end(), [](unsigned char c) { return std::isdigit(c); });
    result += (begin == 0 ? "" : ".") + (is_number ? "*" : step);
    begin = end + 1;
  }
  return result;
}

/// The number of letters to insert, remove or replace.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    auto diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const auto replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

} // namespace

std::vector<std::string> nearest(const std::string& wanted, const std::vector<std::string>& names) {
  const auto target = with_stars_for_numbers(wanted);
  std::set<std::pair<size_t, std::string>> ranked;
  for (const auto& name : names) {
    const auto candidate = with_stars_for_numbers(name);
    if (!candidate.empty()) {
      ranked.emplace(distance(target, candidate), candidate);
    }
  }
  std::vector<std::string> result;
  for (const auto& [_, name] : ranked) {
    if (result.size() < kMost) {
      result.push_back(name);
    }
  }
  return result;
}

} // namespace weft::nn
