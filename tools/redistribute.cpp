#include "tools/commands.h"
#include "tools/model_options.h"
#include "weft/redistribute/plan.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iomanip>
#include <iostream>
#include <memory>

namespace weft {

namespace {

void print_plan(const std::string& source_text, const std::string& target_text, bool is_json) {
  const auto source = TensorSpec::parse(source_text);
  const auto target = source->with(Layout::parse(target_text));
  const auto found = plan(source, target);
  if (is_json) {
    nlohmann::ordered_json json = {{"source", source->to_string()}, {"target", target->to_string()}};
    json["steps"] = nlohmann::json::array();
    for (const auto& step : found.steps) {
      json["steps"].push_back(
          {{"kind", to_string(step.kind)},
           {"mesh_dims", source->mesh().dims_text(step.mesh_dims)},
           {"before", step.before.to_string()},
           {"after", step.after.to_string()}});
    }
    json["bytes"] = static_cast<int64_t>(received_bytes(found));
    json["seconds"] = cost(found);
    std::cout << json.dump() << "\n";
    return;
  }
  std::cout << *source << " -> " << target->layout() << "\n"
            << found.to_string() << "\n"
            << "receives about " << static_cast<int64_t>(received_bytes(found)) << " bytes per rank, "
            << std::setprecision(3) << cost(found) * 1e6 << " us by the link model\n";
}

} // namespace

void add_redistribute_command(CLI::App& app) {
  const auto source = std::make_shared<std::string>();
  const auto target = std::make_shared<std::string>();
  const auto is_json = std::make_shared<bool>(false);
  auto* command =
      app.add_subcommand("redistribute", "Print the steps that redistribute a tensor, without running them");
  command->add_option("source", *source, "The tensor, as in \"f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}\"")->required();
  command->add_option("target", *target, "The layout wanted, as in \"{R, S(1)}\"")->required();
  add_json(*command, *is_json);
  command->footer("Example:\n  weft redistribute 'f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}' '{R, S(1)}'");
  command->callback([source, target, is_json] { print_plan(*source, *target, *is_json); });
}

} // namespace weft
