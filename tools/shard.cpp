#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/progress_bar.h"
#include "weft/graph/analysis/summary.h"
#include "weft/graph/deploy/sharded_folder.h"

#include <CLI/CLI.hpp>

#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>

namespace weft {

namespace {

volatile std::sig_atomic_t was_interrupted = 0;

/// Ctrl-C ends the work as an error does: nothing is left behind.
void end_on_signals() {
  for (const int signal : {SIGINT, SIGTERM}) {
    std::signal(signal, [](int) { was_interrupted = 1; });
  }
}

struct ShardOptions {
  ModelOptions model;
  std::string folder;
  graph::PassOptions passes;
  bool is_json = false;
};

/// The folder that is written is replaced with all that is in it, which would lose the texts.
void check_apart(const std::string& texts, const std::string& output) {
  namespace fs = std::filesystem;
  const auto resolved = [](const std::string& path) { return fs::weakly_canonical(fs::absolute(path)); };
  TORCH_CHECK_VALUE(
      texts.empty() || *resolved(texts).lexically_relative(resolved(output)).begin() == "..",
      "[weft shard] --dump-after must name a folder outside of the output's, ", output, ", but got ", texts,
      ". Name another.");
}

void shard(const ShardOptions& options) {
  end_on_signals();
  check_apart(options.passes.dump_folder, options.folder);
  const auto program = options.model.sharded({}, options.passes).program;
  {
    ProgressBar bar("writing " + options.folder);
    const auto on_progress = [&](double done) {
      TORCH_CHECK(was_interrupted == 0, "interrupted; nothing was written.");
      bar.show(done);
    };
    graph::write_sharded(program, options.folder, on_progress, options.passes);
  }
  const auto summary = graph::summarize(program);
  if (options.is_json) {
    std::cout << summary.to_json() << "\n";
    return;
  }
  std::cout << summary.to_string() << "written to   " << options.folder << ": " << program.mesh->size()
            << " programs with their weights, and " << graph::Manifest::kFile << "\n";
}

} // namespace

void add_shard_command(CLI::App& app) {
  const auto options = std::make_shared<ShardOptions>();
  auto* command =
      app.add_subcommand("shard", "Shard an exported program over a mesh and write a program for every rank");
  options->model.add_to(*command);
  options->model.add_weights_to(*command);
  command->add_option("-o,--output", options->folder, "The folder to write: rank_<r>.pt2 and weft.json")->required();
  command->add_option(
      "--dump-after", options->passes.dump_folder,
      "A new folder for the program's text after each pass: 01_tensor_parallel.txt, ..., and of every rank "
      "rank_<r>/01_localize.txt, ...; the texts stay if a later pass fails");
  command->add_flag(
      "--verify", options->passes.verifies,
      "Check the program after each pass; the error names the pass that broke it");
  add_json(*command, options->is_json);
  command->footer(
      "Examples:\n"
      "  weft shard model.pt2 --mesh tp=4 --plan plan.json -o out\n"
      "  weft shard model.pt2 --mesh dp=2,tp=2 --plan plan.json -o out --input-layout 'tokens={S(0),R}'\n"
      "  weft shard model.pt2 --mesh tp=2 --plan plan.json -o out --link 50us,125MB/s --compute measured\n"
      "  weft shard model.pt2 --mesh tp=2 --plan plan.json -o out --weights llama-3-8b\n"
      "  weft shard model.pt2 --mesh tp=2 --plan plan.json -o out --verify --dump-after passes\n"
      "A folder that was written so is replaced; one that holds anything else is not touched.");
  command->callback([options] { shard(*options); });
}

} // namespace weft
