#include "tests/support/process_ranks.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

namespace weft::testing {

namespace process_ranks_test {

RANK_ROLE(says_its_environment) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "WEFT_TIMEOUT_SECONDS", "EXTRA"}) {
    say(name, "=", std::getenv(name));
  }
}

TEST(ProcessRanks, HaveTheEnvironmentOfALauncher) {
  const auto ranks = run_process_ranks(
      "says_its_environment", 2, {.timeout = std::chrono::seconds(7), .environment = {{"EXTRA", "more"}}});
  ASSERT_EQ(ranks.size(), 2);
  EXPECT_EQ(ranks[0].output, "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=127.0.0.1\nWEFT_TIMEOUT_SECONDS=7\nEXTRA=more\n");
  EXPECT_EQ(ranks[1].output, "RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=127.0.0.1\nWEFT_TIMEOUT_SECONDS=7\nEXTRA=more\n");
  EXPECT_EQ(ranks[0].exit_code, 0);
}

RANK_ROLE(throws) {
  throw std::runtime_error("no such thing");
}

TEST(ProcessRanks, ARoleThatThrowsFails) {
  const auto ranks = run_process_ranks("throws", 1);
  EXPECT_EQ(ranks[0].exit_code, 1);
  EXPECT_EQ(ranks[0].output, "error: no such thing\n");
}

TEST(ProcessRanks, ARoleThatIsNotThereFails) {
  const auto ranks = run_process_ranks("misspelt", 1);
  EXPECT_EQ(ranks[0].exit_code, 2);
  EXPECT_TRUE(ranks[0].has_line("error: no role is called misspelt"));
}

RANK_ROLE(waits_for_signals) {
  say("ready");
  wait_to_be_continued();
  say("continued");
  wait_to_be_killed();
}

TEST(ProcessRanks, AreSentSignalsWhenTheySaySo) {
  const auto ranks = run_process_ranks(
      "waits_for_signals", 2,
      {.signals = {
           {0, "ready", 1, SIGCONT}, {1, "continued", 0, SIGKILL}, {1, "continued", 1, SIGTERM}, {0, "never", 0, 0}}});
  EXPECT_EQ(ranks[0].signal, SIGKILL);
  EXPECT_EQ(ranks[0].output, "ready\n");
  EXPECT_EQ(ranks[1].signal, SIGTERM);
  EXPECT_EQ(ranks[1].output, "ready\ncontinued\n");
}

/// The failure of a test whose rank hangs, which is killed at the deadline. From GTest 1.14 on a failure ends with one
/// line break more, so that those at the end are left out.
std::string failure_of_hang(std::chrono::seconds deadline) {
  ::testing::TestPartResultArray failures;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    run_process_ranks("waits_for_signals", 1, {.deadline = deadline});
  }
  EXPECT_EQ(failures.size(), 1);
  std::string text = failures.size() == 1 ? failures.GetTestPartResult(0).message() : "no failure";
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

TEST(ProcessRanks, AHangFailsTheTestWithWhatWasPrinted) {
  auto deadline = std::chrono::seconds(1);
  std::string text;
  // A busy machine may need longer than the deadline to start the rank, which has then printed nothing.
  const std::string nothing_printed = "signal 0";
  do {
    deadline *= 2;
    text = failure_of_hang(deadline);
  } while (text.ends_with(nothing_printed));
  EXPECT_EQ(
      text,
      "Failed\nthe programs have not ended within " + std::to_string(deadline.count()) +
          " s\n--- program 0: exit code -1, signal 0\nready");
}

} // namespace process_ranks_test

} // namespace weft::testing
