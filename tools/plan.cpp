#include "tools/commands.h"
#include "tools/model_options.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/analysis/number_text.h"
#include "weft/graph/propose/propose_plan.h"
#include "weft/graph/propose/propose_units.h"
#include "weft/graph/pt2/new_file.h"
#include "weft/graph/pt2/read_pt2.h"
#include "weft/styles/module_layout.h"

#include <CLI/CLI.hpp>

#include <iomanip>
#include <iostream>
#include <memory>

namespace weft {

namespace {

struct PlanOptions {
  std::string model;
  std::string mesh;
  std::string mesh_dim;
  std::string fully_shard;
  std::string output;
  bool is_json = false;
};

void print_reasons(const graph::ProposedPlan& proposed, bool has_styles) {
  size_t width = proposed.units.empty() ? 0 : std::string_view("(the model)").size();
  for (const auto& each : proposed.units) {
    width = std::max(width, each.unit.pattern.size());
  }
  for (const auto& entry : proposed.entries) {
    width = std::max(width, entry.pattern.size());
  }
  for (const auto& left : proposed.left_out) {
    width = std::max(width, left.pattern.size());
  }
  const auto print = [&](const std::string& pattern, const std::string& text) {
    std::cerr << std::left << std::setw(static_cast<int>(width) + 2) << pattern << text << "\n";
  };
  for (const auto& entry : proposed.entries) {
    print(entry.pattern, std::string(nn::to_string(entry.style.kind)) + "; " + entry.reason);
  }
  for (const auto& [unit, reason] : proposed.units) {
    print(unit.pattern.empty() ? "(the model)" : unit.pattern, reason);
  }
  for (const auto& left : proposed.left_out) {
    print(left.pattern, left.reason);
  }
  if (!has_styles) {
    return;
  }
  if (proposed.entries.empty()) {
    std::cerr << "No layers were found that a plan would shard.\n";
  }
  std::cerr << "Of " << graph::count_text(proposed.parameters) << " parameters every rank holds "
            << graph::count_text(proposed.replicated) << ", and a shard of the others.\n";
}

void plan(const PlanOptions& options) {
  const auto program = graph::read_pt2(options.model, {.verifies_weights = false});
  const auto mesh = analysis_mesh(options.mesh);
  // On a mesh of one dim there is none left for styles.
  const bool has_styles = options.fully_shard.empty() || mesh.ndim() > 1;
  graph::ProposedPlan proposed;
  if (has_styles) {
    const auto dim = nn::plan_mesh_dim(mesh, options.mesh_dim.empty() ? std::nullopt : std::optional(options.mesh_dim));
    proposed = graph::propose_plan(program, mesh.size(dim));
  }
  if (!options.fully_shard.empty()) {
    mesh.dim(options.fully_shard); // raises for another name
    graph::propose_units(proposed, program, options.fully_shard);
  }
  const auto text = proposed.plan_text() + "\n";
  if (!options.output.empty()) {
    graph::NewFile file("plan", options.output);
    file.write(text.data(), text.size());
    file.complete();
  }
  if (options.is_json) {
    std::cout << proposed.to_json() << "\n";
    return;
  }
  print_reasons(proposed, has_styles);
  if (options.output.empty()) {
    std::cout << text;
  }
}

} // namespace

void add_plan_command(CLI::App& app) {
  const auto options = std::make_shared<PlanOptions>();
  auto* command = app.add_subcommand("plan", "Propose a plan for an exported program, to be edited");
  add_model_file(*command, options->model);
  add_mesh(*command, options->mesh);
  command->add_option("--mesh-dim", options->mesh_dim, "The mesh dim that the plan is for; tp, or the only one");
  command->add_option(
      "--fully-shard", options->fully_shard,
      "The mesh dim over which repeated blocks, and the rest, are to be fully sharded; none");
  command->add_option("-o,--output", options->output, "The plan file to write; stdout where none is named");
  add_json(*command, options->is_json);
  command->footer(
      "Examples:\n"
      "  weft plan model.pt2 --mesh tp=4 -o plan.json\n"
      "  weft plan model.pt2 --mesh dp=2,tp=2 | jq keys\n"
      "  weft plan model.pt2 --mesh dp=2,tp=2 --fully-shard dp\n"
      "stderr says why each layer is sharded, or is not. Under every plan the results are those of the model.");
  command->callback([options] { plan(*options); });
}

} // namespace weft
