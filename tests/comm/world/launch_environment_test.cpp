#include "weft/comm/world/launch_environment.h"

#include "tests/support/error_text.h"
#include "tests/support/scoped_environment.h"

#include <gtest/gtest.h>

namespace weft {

namespace launch_environment_test {

using testing::error_text;
using testing::ScopedEnvironment;

/// An environment with only these of the variables that launchers set.
ScopedEnvironment::Values only(const ScopedEnvironment::Values& values) {
  ScopedEnvironment::Values all = values;
  for (const char* name :
       {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "MASTER_ADDR",
        "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"}) {
    all.try_emplace(name, std::nullopt);
  }
  return all;
}

std::string error_with(const ScopedEnvironment::Values& values) {
  const ScopedEnvironment environment(only(values));
  return error_text<c10::ValueError>([] { read_launch_environment(); });
}

TEST(LaunchEnvironment, IsNothingWhereNoLauncherStartedTheProcess) {
  const ScopedEnvironment environment(only({}));
  EXPECT_FALSE(read_launch_environment().has_value());
}

TEST(LaunchEnvironment, ReadsWhatTorchrunSets) {
  const ScopedEnvironment environment(only(
      {{"RANK", "3"},
       {"WORLD_SIZE", "8"},
       {"MASTER_ADDR", "node7"},
       {"MASTER_PORT", "1234"},
       {"TORCHELASTIC_USE_AGENT_STORE", "True"},
       {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  const auto read = read_launch_environment();
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->rank, 3);
  EXPECT_EQ(read->world_size, 8);
  EXPECT_EQ(read->master_address, "node7");
  EXPECT_EQ(read->master_port, 1234);
  EXPECT_TRUE(read->launcher_serves_store);
  EXPECT_EQ(read->attempt, 2);
}

TEST(LaunchEnvironment, ReadsWhatOpenMpiAndMpichSetAndHasDefaults) {
  for (const auto& [rank, size] :
       {std::pair{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}}) {
    const ScopedEnvironment environment(only({{rank, "1"}, {size, "4"}}));
    const auto read = read_launch_environment();
    ASSERT_TRUE(read.has_value()) << rank;
    EXPECT_EQ(read->rank, 1);
    EXPECT_EQ(read->world_size, 4);
    EXPECT_EQ(read->master_address, "127.0.0.1");
    EXPECT_EQ(read->master_port, 29500);
    EXPECT_FALSE(read->launcher_serves_store);
    EXPECT_EQ(read->attempt, 0);
  }
}

TEST(LaunchEnvironment, TorchrunsVariablesWinOverThoseOfMpi) {
  const ScopedEnvironment environment(
      only({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "6"}}));
  EXPECT_EQ(read_launch_environment()->world_size, 2);
}

TEST(LaunchEnvironment, SaysWhichVariableMakesNoSense) {
  EXPECT_EQ(
      error_with({{"RANK", "0"}}),
      "[launch] RANK and WORLD_SIZE must be set together, but only RANK is. Start the program with torchrun or mpirun, "
      "or unset it.");
  EXPECT_EQ(
      error_with({{"OMPI_COMM_WORLD_SIZE", "2"}}),
      "[launch] OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE must be set together, but only OMPI_COMM_WORLD_SIZE is. "
      "Start the program with torchrun or mpirun, or unset it.");
  EXPECT_EQ(
      error_with({{"RANK", "one"}, {"WORLD_SIZE", "2"}}),
      "[launch] the environment variable RANK must be an integer, but got 'one'.");
  EXPECT_EQ(
      error_with({{"RANK", "1"}, {"WORLD_SIZE", "2x"}}),
      "[launch] the environment variable WORLD_SIZE must be an integer, but got '2x'.");
  EXPECT_EQ(
      error_with({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), "[launch] RANK must be in [0, WORLD_SIZE), but got 2 of 2.");
  EXPECT_EQ(
      error_with({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), "[launch] RANK must be in [0, WORLD_SIZE), but got -1 of 2.");
  EXPECT_EQ(
      error_with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "http"}}),
      "[launch] the environment variable MASTER_PORT must be an integer, but got 'http'.");
  EXPECT_EQ(
      error_with({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}),
      "[launch] MASTER_PORT must be in [1, 65535], but got 70000.");
}

} // namespace launch_environment_test

} // namespace weft
