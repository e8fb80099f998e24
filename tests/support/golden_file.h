#pragma once

#include <gtest/gtest.h>

#include <torch/version.h>

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

/// Whether texts that list ATen's operators can be compared: each torch has its own, and the files are of this one.
inline bool has_operators_of_golden_files() {
  return TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 13;
}

} // namespace weft::testing
