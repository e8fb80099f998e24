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
  } catch (const Error& error) {
    if constexpr (std::is_base_of_v<c10::Error, Error>) {
      return error.what_without_backtrace();
    } else {
      return error.what();
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "an error of another type was raised: " << error.what();
    return {};
  }
  ADD_FAILURE() << "no error was raised";
  return {};
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nin: " << text;
}

} // namespace weft::testing
