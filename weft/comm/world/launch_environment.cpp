#include "weft/comm/world/launch_environment.h"

#include <c10/util/Exception.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace weft {

namespace {

struct LauncherVariables {
  const char* rank;
  const char* world_size;
};

constexpr std::array<LauncherVariables, 3> kLaunchers = {{
    {"RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "PMI_SIZE"},
}};

int64_t integer_from(const char* name, std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TORCH_CHECK_VALUE(
      error == std::errc() && end == text.data() + text.size(), "[launch] the environment variable ", name,
      " must be an integer, but got '", text, "'.");
  return value;
}

int64_t integer_or(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : integer_from(name, text);
}

} // namespace

std::optional<LaunchEnvironment> read_launch_environment() {
  for (const auto& launcher : kLaunchers) {
    const char* rank = std::getenv(launcher.rank);
    const char* world_size = std::getenv(launcher.world_size);
    if (rank == nullptr && world_size == nullptr) {
      continue;
    }
    TORCH_CHECK_VALUE(
        rank != nullptr && world_size != nullptr, "[launch] ", launcher.rank, " and ", launcher.world_size,
        " must be set together, but only ", rank != nullptr ? launcher.rank : launcher.world_size,
        " is. Start the program with torchrun or mpirun, or unset it.");
    const char* address = std::getenv("MASTER_ADDR");
    const char* agent_store = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
    LaunchEnvironment environment{
        .rank = integer_from(launcher.rank, rank),
        .world_size = integer_from(launcher.world_size, world_size),
        .master_address = address == nullptr ? "127.0.0.1" : address,
        .master_port = integer_or("MASTER_PORT", 29500),
        .launcher_serves_store = agent_store != nullptr && std::string_view(agent_store) == "True",
        .attempt = integer_or("TORCHELASTIC_RESTART_COUNT", 0),
    };
    TORCH_CHECK_VALUE(
        environment.world_size > 0 && environment.rank >= 0 && environment.rank < environment.world_size, "[launch] ",
        launcher.rank, " must be in [0, ", launcher.world_size, "), but got ", rank, " of ", world_size, ".");
    TORCH_CHECK_VALUE(
        environment.master_port > 0 && environment.master_port < 65536,
        "[launch] MASTER_PORT must be in [1, 65535], but got ", environment.master_port, ".");
    return environment;
  }
  return std::nullopt;
}

} // namespace weft
