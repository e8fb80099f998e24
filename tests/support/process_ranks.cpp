#include "tests/support/process_ranks.h"

#include "tests/support/forbidden_call.h"

#include <c10/util/Exception.h>

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace weft::testing {

namespace {

constexpr const char* kRoleVariable = "WEFT_TEST_ROLE";

std::map<std::string, void (*)()>& roles() {
  static std::map<std::string, void (*)()> all;
  return all;
}

std::string own_program() {
  char path[4096];
  const auto length = readlink("/proc/self/exe", path, sizeof(path));
  TORCH_CHECK(length > 0, "cannot read /proc/self/exe");
  return std::string(path, length);
}

/// What every rank gets: nothing of a launcher that may have started the tests themselves.
std::map<std::string, std::string> rank_environment(const std::string& role, const ProcessOptions& options) {
  std::map<std::string, std::string> environment;
  for (const char* name :
       {"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "MASTER_ADDR",
        "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"}) {
    environment[name] = "";
  }
  environment[kRoleVariable] = role;
  environment["WEFT_TIMEOUT_SECONDS"] = std::to_string(options.timeout.count());
  environment["OMP_NUM_THREADS"] = "1";
  return environment;
}

bool can_bind(int64_t port) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  const bool free = bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(descriptor);
  return free;
}

} // namespace

RoleRegistration::RoleRegistration(const char* name, void (*role)()) {
  roles()[name] = role;
}

int64_t free_port() {
  // No port is given twice: programs that are started at the same time bind theirs later.
  static std::mutex mutex;
  static std::set<int64_t> given;
  static std::mt19937 random(std::random_device{}());
  const std::lock_guard lock(mutex);
  std::uniform_int_distribution<int64_t> ports(12000, 32000);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    if (const auto port = ports(random); can_bind(port) && given.insert(port).second) {
      return port;
    }
  }
  TORCH_CHECK(false, "no free port was found");
}

std::vector<Outcome> run_process_ranks(const std::string& role, int64_t size, ProcessOptions options) {
  auto environment = rank_environment(role, options);
  environment[options.rank_variables.second] = std::to_string(size);
  environment["MASTER_ADDR"] = "127.0.0.1";
  environment["MASTER_PORT"] = std::to_string(free_port());
  std::vector<Command> programs;
  for (int64_t rank = 0; rank < size; ++rank) {
    environment[options.rank_variables.first] = std::to_string(rank);
    auto& program = programs.emplace_back(Command{{own_program()}, environment});
    for (const auto& [name, value] : options.environment) {
      program.environment[name] = value;
    }
  }
  return run_programs(programs, options.deadline, options.signals);
}

Outcome run_under_launcher(std::vector<std::string> command, const std::string& role, ProcessOptions options) {
  command.push_back(own_program());
  auto environment = rank_environment(role, options);
  for (const auto& [name, value] : options.environment) {
    environment[name] = value;
  }
  return run_programs({{std::move(command), std::move(environment)}}, options.deadline, options.signals)[0];
}

std::string python_program() {
  return WEFT_TEST_PYTHON;
}

void say_line(const std::string& line) {
  const auto text = line + "\n";
  size_t written = 0;
  while (written < text.size()) {
    const auto count = write(STDOUT_FILENO, text.data() + written, text.size() - written);
    if (count <= 0) {
      return;
    }
    written += static_cast<size_t>(count);
  }
}

std::optional<int> run_role_if_named() {
  const char* name = std::getenv(kRoleVariable);
  if (name == nullptr) {
    return std::nullopt;
  }
  // Whatever ends the test ends its ranks.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto role = roles().find(name);
  if (role == roles().end()) {
    say("error: no role is called ", name);
    return 2;
  }
  try {
    if (const char* number = std::getenv(kForbiddenCallVariable)) {
      forbid_call(std::stol(number));
    }
    role->second();
    return 0;
  } catch (const c10::Error& error) {
    say("error: ", error.what_without_backtrace());
  } catch (const std::exception& error) {
    say("error: ", error.what());
  }
  return 1;
}

void wait_to_be_killed() {
  while (true) {
    pause();
  }
}

void wait_to_be_continued() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCONT); // blocked since the process was started, see run_programs
  int received = 0;
  sigwait(&signals, &received);
}

} // namespace weft::testing
