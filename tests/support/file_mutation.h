#pragma once

#include <nlohmann/json.hpp>

#include <random>
#include <string>

namespace weft::testing {

/// A valid file, changed in one to three places as disks, transfers and careless editors change it. The same seed changes
/// the same file in the same way.
class FileMutation {
 public:
  explicit FileMutation(uint64_t seed) : random_(seed) {}

  /// Flipped bits, bytes that are missing, doubled, swapped or others, a shorter file.
  std::string bytes(std::string file);
  /// Still JSON: values that are gone, doubled, swapped or others, huge numbers, keys that come twice, deep nesting.
  std::string json(const std::string& text);

 private:
  size_t below(size_t count) {
    return count == 0 ? 0 : random_() % count;
  }
  void change_bytes(std::string& file);
  void change_value(nlohmann::ordered_json& root);

  std::mt19937_64 random_;
};

} // namespace weft::testing
