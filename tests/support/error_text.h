#pragma once

#include <gtest/gtest.h>

#include <c10/util/Exception.h>

#include <functional>
#include <string>

namespace weft::testing {

/// The text of the error that `fn` raises, without the backtrace. The test fails where it raises nothing, or something
/// that is no `Error`.
template <class Error = c10::Error>
std::string error_text(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    if constexpr (!std::is_same_v<Error, std::exception>) {
      if (dynamic_cast<const Error*>(&error) == nullptr) {
        ADD_FAILURE() << "an error of another type was raised: " << error.what();
      }
    }
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    return torch_error == nullptr ? error.what() : torch_error->what_without_backtrace();
  }
  ADD_FAILURE() << "no error was raised";
  return {};
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nin: " << text;
}

} // namespace weft::testing
