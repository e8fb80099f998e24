#pragma once

#include "tests/support/processes.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace weft::testing {

/// Ranks that are real processes: the test's own program is started once per rank, with the environment a launcher
/// would give it, and runs a role instead of the tests.
///
///   RANK_ROLE(sums_ones) {
///     const auto mesh = init_device_mesh("cpu", {2}, {"dp"});
///     say("sum ", all_reduce(at::ones({}), mesh, 0, ReduceOp::Sum).wait().item<float>());
///   }
///   TEST(Gloo, SumsOverProcesses) {
///     for (const auto& rank : run_process_ranks("sums_ones", 2)) {
///       EXPECT_TRUE(rank.has_line("sum 2")) << rank.output;
///     }
///   }
///
/// A role that throws prints `error: <text>` and exits with 1.
struct RoleRegistration {
  RoleRegistration(const char* name, void (*role)());
};

#define RANK_ROLE(name)                                                                        \
  static void rank_role_##name();                                                              \
  static const ::weft::testing::RoleRegistration rank_role_of_##name(#name, rank_role_##name); \
  static void rank_role_##name()

struct ProcessOptions {
  /// WEFT_TIMEOUT_SECONDS of the ranks.
  std::chrono::seconds timeout{30};
  /// Past this the test fails.
  std::chrono::seconds deadline{120};
  std::vector<SignalOnLine> signals = {};
  std::map<std::string, std::string> environment = {};
  /// The variables that say a rank's number and how many there are.
  std::pair<std::string, std::string> rank_variables = {"RANK", "WORLD_SIZE"};
};

/// The outcome of every rank, in order.
std::vector<Outcome> run_process_ranks(const std::string& role, int64_t size, ProcessOptions options = {});

/// The outcome of a launcher (torchrun, mpirun) that starts the ranks itself: `command` followed by this program.
Outcome run_under_launcher(std::vector<std::string> command, const std::string& role, ProcessOptions options = {});

/// Prints a line in one write, so that the lines of several ranks do not mix, and flushes it.
void say_line(const std::string& line);
template <class... Parts>
void say(const Parts&... parts);

/// Runs the role that the environment names, if it names one: the exit code.
std::optional<int> run_role_if_named();

/// The Python interpreter whose torch Weft is built against.
std::string python_program();

/// A free port of this machine, outside the range from which outgoing connections take theirs.
int64_t free_port();

/// Sits there until the process is killed.
[[noreturn]] void wait_to_be_killed();
/// Sits there until the process has been sent SIGCONT, be it now or since it was started.
void wait_to_be_continued();

} // namespace weft::testing

#include <sstream>

template <class... Parts>
void weft::testing::say(const Parts&... parts) {
  std::ostringstream line;
  (line << ... << parts);
  say_line(line.str());
}
