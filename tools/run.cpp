#include "tools/commands.h"
#include "tools/model_options.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/launch_environment.h"
#include "weft/core/dtype_text.h"
#include "weft/graph/deploy/global_run.h"
#include "weft/graph/deploy/sharded_folder.h"
#include "weft/graph/pt2/read_pt2.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>

namespace weft {

namespace {

struct RunCommandOptions {
  std::string program;
  std::string input;
  std::string output;
  std::optional<uint64_t> seed;
  int64_t repeat = 1;
  bool is_json = false;
};

using ProgramPtr = std::shared_ptr<const graph::Program>;

/// A program that is being run, on threads or as one of several processes.
struct Ranks {
  std::unique_ptr<graph::GlobalRun> run;
  int64_t size = 1;
  bool writes = true; // the output file: of several processes the first alone
  const char* kind = "one rank";
};

bool is_launched() {
  const auto environment = read_launch_environment();
  return environment && environment->world_size > 1;
}

Ranks start_folder(const std::string& folder) {
  const auto manifest = graph::Manifest::load(folder);
  const auto size = manifest.mesh ? manifest.mesh->size() : 1;
  if (is_launched()) {
    const auto rank = read_launch_environment()->rank;
    TORCH_CHECK_VALUE(
        read_launch_environment()->world_size == size, "[run] ", folder, " is for ", size,
        " ranks, but the launcher has started ", read_launch_environment()->world_size, " processes.");
    auto program = std::make_shared<const graph::Program>(graph::read_rank(folder, manifest, rank));
    return {graph::run_as_process(std::move(program), manifest), size, rank == 0, "processes"};
  }
  std::vector<ProgramPtr> programs;
  for (int64_t rank = 0; rank < size; ++rank) {
    programs.push_back(std::make_shared<const graph::Program>(graph::read_rank(folder, manifest, rank)));
  }
  return {graph::run_on_threads(std::move(programs), manifest), size, true, "threads"};
}

Ranks start(const std::string& path) {
  TORCH_CHECK_VALUE(
      std::filesystem::exists(path),
      "[run] a folder that `weft shard` wrote, or an exported program, is required, but ", path, " does not exist.");
  if (std::filesystem::is_directory(path)) {
    return start_folder(path);
  }
  TORCH_CHECK_VALUE(
      !is_launched(), "[run] a program that is not sharded runs on one rank, but a launcher has started ",
      read_launch_environment()->world_size, " processes. Shard it first.");
  auto program = std::make_shared<const graph::Program>(graph::read_pt2(path));
  auto manifest = graph::manifest_of(*program);
  return {graph::run_on_threads({std::move(program)}, std::move(manifest))};
}

void print(
    const RunCommandOptions& options,
    const Ranks& ranks,
    const graph::NamedTensors& outputs,
    const std::vector<double>& seconds) {
  if (options.is_json) {
    nlohmann::ordered_json json = {{"ranks", ranks.size}, {"kind", ranks.kind}, {"outputs", nlohmann::json::array()}};
    for (const auto& [name, tensor] : outputs) {
      json["outputs"].push_back(
          {{"name", name}, {"dtype", dtype_text(tensor.scalar_type())}, {"sizes", tensor.sizes().vec()}});
    }
    json["seconds"] = seconds;
    std::cout << json.dump() << "\n";
    return;
  }
  std::cout << "ran on " << (ranks.size == 1 ? "one rank" : c10::str(ranks.size, " ranks (", ranks.kind, ")"));
  auto sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  std::cout << " in " << sorted[sorted.size() / 2] * 1e3 << " ms"
            << (sorted.size() > 1 ? c10::str(" (the median of ", sorted.size(), " runs)") : "") << "\n";
  for (const auto& [name, tensor] : outputs) {
    std::cout << name << ": " << dtype_text(tensor.scalar_type()) << "[" << c10::Join(",", tensor.sizes()) << "]\n";
  }
}

void run(const RunCommandOptions& options) {
  const auto inputs = options.input.empty() ? graph::NamedTensors() : graph::read_safetensors(options.input);
  auto ranks = start(options.program);
  if (options.seed) {
    ranks.run->manual_seed(*options.seed);
  }
  std::vector<at::Tensor> results;
  std::vector<double> seconds;
  for (int64_t i = 0; i < options.repeat; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    results = ranks.run->run(inputs);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  if (!ranks.writes) {
    return;
  }
  graph::NamedTensors outputs;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].defined()) {
      outputs["output_" + std::to_string(i)] = results[i];
    }
  }
  graph::write_safetensors(outputs, options.output);
  print(options, ranks, outputs, seconds);
}

} // namespace

void add_run_command(CLI::App& app) {
  const auto options = std::make_shared<RunCommandOptions>();
  auto* command = app.add_subcommand("run", "Run a sharded program on global tensors");
  command->add_option("program", options->program, "A folder that `weft shard` wrote, or an exported program")
      ->required();
  command->add_option(
      "--input", options->input,
      "The global inputs by name (safetensors); numbers are tensors of no dims. Not needed by a program without "
      "inputs");
  command->add_option("--output", options->output, "The file to write: the global output_0, output_1, ...")->required();
  command->add_option("--seed", options->seed, "The seed of the program's random operators");
  command->add_option("--repeat", options->repeat, "Run so many times, for its time; what is written is the last one's")
      ->check(CLI::PositiveNumber);
  add_json(*command, options->is_json);
  command->footer(
      "Examples:\n"
      "  weft run out --input x.safetensors --output y.safetensors                  ranks are threads of this process\n"
      "  torchrun --no-python --nproc-per-node 4 weft run out --input x.safetensors --output y.safetensors\n"
      "  mpirun -n 4 weft run out --input x.safetensors --output y.safetensors      each process is a rank; 0 writes\n"
      "  weft run model.pt2 --input x.safetensors --output y.safetensors            unsharded, on one rank\n"
      "Over hosts, each needs the input, weft.json and the programs of its ranks under the same names.");
  command->callback([options] { run(*options); });
}

} // namespace weft
