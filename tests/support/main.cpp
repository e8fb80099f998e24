#include "tests/support/process_ranks.h"

#include <gtest/gtest.h>

/// Runs the tests, or, in a process that a test has started as a rank, that rank's role.
int main(int argc, char** argv) {
  if (const auto exit_code = weft::testing::run_role_if_named()) {
    return *exit_code;
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
