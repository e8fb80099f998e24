#include "tests/support/process_ranks.h"

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <string_view>

namespace {

/// The filter that runs the tests of one source; empty if it has none.
std::string tests_of_file(std::string_view file) {
  std::string filter;
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const auto& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const auto& test = *suite.GetTestInfo(t);
      if (std::string_view(test.file()).ends_with("/" + std::string(file))) {
        filter += (filter.empty() ? "" : ":") + std::string(suite.name()) + "." + test.name();
      }
    }
  }
  return filter;
}

} // namespace

/// Runs the tests, with --file=<name>_test.cpp those of one source alone; or, in a process that a test has started as a rank,
/// that rank's role.
int main(int argc, char** argv) {
  if (const auto exit_code = weft::testing::run_role_if_named()) {
    return *exit_code;
  }
  ::testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFile = "--file=";
  if (argc > 1 && std::string_view(argv[1]).starts_with(kFile)) {
    const auto filter = tests_of_file(argv[1] + kFile.size());
    if (filter.empty()) {
      std::cerr << "no test is in a source that is called " << argv[1] + kFile.size() << "\n";
      return 1;
    }
    ::testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
