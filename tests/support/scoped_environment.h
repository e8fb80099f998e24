#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace weft::testing {

/// Sets environment variables (nullopt unsets) and puts back what was there.
class ScopedEnvironment {
 public:
  using Values = std::map<std::string, std::optional<std::string>>;

  explicit ScopedEnvironment(const Values& values) {
    for (const auto& [name, value] : values) {
      const char* before = std::getenv(name.c_str());
      before_[name] = before == nullptr ? std::nullopt : std::optional<std::string>(before);
      set(name, value);
    }
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) {
      set(name, value);
    }
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;

 private:
  static void set(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      setenv(name.c_str(), value->c_str(), /*overwrite=*/1);
    } else {
      unsetenv(name.c_str());
    }
  }

  Values before_;
};

} // namespace weft::testing
