#include "tests/support/processes.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::testing {

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) {
      result.push_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) {
      result.push_back(name + "=" + value);
    }
  }
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (auto& text : texts) {
    result.push_back(text.data());
  }
  result.push_back(nullptr);
  return result;
}

/// One program while it runs: its process, the reading end of its output, and what has been read.
class Running {
 public:
  explicit Running(const Command& program) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
    }
    pipe_ = ends[0];
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    // A process group of its own, so that a launcher can be ended with all it started.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    // SIGCONT stays pending from the start, so that a program can wait for it whenever it comes.
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGCONT);
    posix_spawnattr_setsigmask(&attributes, &blocked);
    auto arguments = program.arguments;
    auto environment = merged_environment(program.environment);
    const int failed = posix_spawnp(
        &pid_, arguments[0].c_str(), &actions, &attributes, pointers(arguments).data(), pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (failed != 0) {
      close(pipe_);
      throw std::runtime_error("cannot start " + arguments[0] + ": " + std::strerror(failed));
    }
  }

  ~Running() {
    if (!ended_) {
      send(SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (pipe_ >= 0) {
      close(pipe_);
    }
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  /// -1 once the output has ended.
  int pipe() const {
    return pipe_;
  }
  bool ended() const {
    return ended_ && pipe_ < 0;
  }
  const Outcome& outcome() const {
    return outcome_;
  }

  void send(int signal) {
    if (!ended_) {
      killpg(pid_, signal);
    }
  }

  void read_output() {
    char buffer[4096];
    const auto count = read(pipe_, buffer, sizeof(buffer));
    if (count > 0) {
      outcome_.output.append(buffer, count);
    } else if (count == 0 || errno != EINTR) {
      close(pipe_);
      pipe_ = -1;
    }
  }

  void reap() {
    int status = 0;
    if (ended_ || waitpid(pid_, &status, WNOHANG) != pid_) {
      return;
    }
    ended_ = true;
    if (WIFEXITED(status)) {
      outcome_.exit_code = WEXITSTATUS(status);
    } else {
      outcome_.signal = WTERMSIG(status);
    }
  }

 private:
  pid_t pid_ = -1;
  int pipe_ = -1;
  bool ended_ = false;
  Outcome outcome_;
};

void read_what_came(std::vector<std::unique_ptr<Running>>& all) {
  std::vector<pollfd> pipes;
  std::vector<Running*> readers;
  for (const auto& one : all) {
    if (one->pipe() >= 0) {
      pipes.push_back({one->pipe(), POLLIN, 0});
      readers.push_back(one.get());
    }
  }
  poll(pipes.data(), pipes.size(), /*milliseconds=*/20);
  for (size_t i = 0; i < pipes.size(); ++i) {
    if (pipes[i].revents != 0) {
      readers[i]->read_output();
    }
  }
}

std::vector<Outcome> outcomes_of(const std::vector<std::unique_ptr<Running>>& all) {
  std::vector<Outcome> result;
  for (const auto& one : all) {
    result.push_back(one->outcome());
  }
  return result;
}

} // namespace

bool Outcome::has_line(const std::string& line) const {
  return ("\n" + output).find("\n" + line + "\n") != std::string::npos;
}

std::vector<Outcome> run_programs(
    const std::vector<Command>& programs,
    std::chrono::seconds deadline,
    const std::vector<SignalOnLine>& signals) {
  std::vector<std::unique_ptr<Running>> all;
  for (const auto& program : programs) {
    all.push_back(std::make_unique<Running>(program));
  }
  auto waiting = signals;
  const auto end = Clock::now() + deadline;
  while (!std::all_of(all.begin(), all.end(), [](const auto& one) { return one->ended(); })) {
    read_what_came(all);
    std::erase_if(waiting, [&](const SignalOnLine& rule) {
      const bool said = all[rule.speaker]->outcome().has_line(rule.line);
      if (said) {
        all[rule.target]->send(rule.signal);
      }
      return said;
    });
    for (const auto& one : all) {
      one->reap();
    }
    if (Clock::now() > end) {
      ADD_FAILURE() << "the programs have not ended within " << deadline.count() << " s\n"
                    << describe(outcomes_of(all));
      break;
    }
  }
  return outcomes_of(all);
}

std::string describe(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const auto& one = outcomes[i];
    text += "--- program " + std::to_string(i) + ": exit code " + std::to_string(one.exit_code) + ", signal " +
        std::to_string(one.signal) + "\n" + one.output;
  }
  return text;
}

} // namespace weft::testing
