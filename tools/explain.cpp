#include "weft/graph/report/explain.h"
#include "tools/commands.h"
#include "tools/explain_page.h"
#include "tools/model_options.h"
#include "weft/graph/pt2/new_file.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

namespace weft {

namespace {

struct ExplainOptions {
  ModelOptions model;
  std::string page;
  std::string node;
  bool is_json = false;
};

void explain(const ExplainOptions& options) {
  auto model = options.model.sharded({.verifies_weights = false});
  const auto explanation = graph::explain(model.program, std::move(model.overlap));
  if (!options.page.empty()) {
    const auto text = explain_page(explanation.to_json());
    graph::NewFile file("explain", options.page);
    file.write(text.data(), text.size());
    file.complete();
  }
  if (options.is_json) {
    std::cout << explanation.to_json(options.node) << "\n";
  } else if (options.page.empty() || !options.node.empty()) {
    std::cout << explanation.to_string(options.node);
  } else {
    std::cout << explanation.summary.to_string() << "written to   " << options.page << "\n";
  }
}

} // namespace

void add_explain_command(CLI::App& app) {
  const auto options = std::make_shared<ExplainOptions>();
  auto* command = app.add_subcommand("explain", "Say of each node its layout, what is redistributed for it, and why");
  options->model.add_to(*command);
  command->add_option("--html", options->page, "Write a page that shows the same, searchable");
  command->add_option(
      "--node", options->node, "Only this node, by the name of what it gives, or the nodes of this module");
  add_json(*command, options->is_json);
  command->footer(
      "Examples:\n"
      "  weft explain model.pt2 --mesh tp=4 --plan plan.json\n"
      "  weft explain model.pt2 --mesh tp=4 --plan plan.json --node layers.0.attention\n"
      "  weft explain model.pt2 --mesh tp=4 --plan plan.json --html page.html\n"
      "  weft explain model.pt2 --mesh tp=2 --plan plan.json --link 50us,125MB/s");
  command->callback([options] { explain(*options); });
}

} // namespace weft
