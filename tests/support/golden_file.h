#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace weft::testing {

/// The file must hold this text; with WEFT_UPDATE_GOLDEN in the environment it is written.
inline void expect_golden(const std::filesystem::path& path, const std::string& actual) {
  if (std::getenv("WEFT_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << actual;
  }
  std::ifstream file(path);
  const std::string expected((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(actual, expected) << "If the change is wanted, run this test with WEFT_UPDATE_GOLDEN=1 and read the diff.";
}

} // namespace weft::testing
