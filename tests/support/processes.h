#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace weft::testing {

/// A program to be run, with what it gets in its environment on top of this process's own; an empty value unsets.
struct Command {
  std::vector<std::string> arguments; // the first is the path
  std::map<std::string, std::string> environment;
};

/// Sends a signal to one program as soon as another (or the same one) has printed a line.
struct SignalOnLine {
  size_t speaker;
  std::string line;
  size_t target;
  int signal;
};

/// What became of a program.
struct Outcome {
  std::string output; // stdout and stderr as they came
  int exit_code = -1; // -1 where a signal ended it
  int signal = 0;     // 0 where it exited

  bool has_line(const std::string& line) const;
};

/// Runs the programs at the same time until all have ended. Past the deadline everything is killed, and the running
/// test fails with what was printed: a hang is a failure that says where.
std::vector<Outcome> run_programs(
    const std::vector<Command>& programs,
    std::chrono::seconds deadline,
    const std::vector<SignalOnLine>& signals = {});

/// All outputs, each under its number: what a failed expectation should show.
std::string describe(const std::vector<Outcome>& outcomes);

} // namespace weft::testing
