#include "weft/redistribute/plan.h"
#include "tools/commands.h"

#include <CLI/CLI.hpp>

#include <iomanip>
#include <iostream>
#include <memory>

namespace weft {

namespace {

void print_plan(const std::string& source_text, const std::string& target_text) {
  const auto source = TensorSpec::parse(source_text);
  const auto target = source->with(Layout::parse(target_text));
  const auto found = plan(source, target);
  std::cout << *source << " -> " << target->layout() << "\n"
            << found.to_string() << "\n"
            << "receives about " << static_cast<int64_t>(received_bytes(found)) << " bytes per rank, "
            << std::setprecision(3) << cost(found) * 1e6 << " us by the link model\n";
}

} // namespace

void add_plan_command(CLI::App& app) {
  const auto source = std::make_shared<std::string>();
  const auto target = std::make_shared<std::string>();
  auto* command = app.add_subcommand("plan", "Print the steps that redistribute a tensor, without running them");
  command->add_option("source", *source, "The tensor, as in \"f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}\"")->required();
  command->add_option("target", *target, "The layout wanted, as in \"{R, S(1)}\"")->required();
  command->callback([source, target] { print_plan(*source, *target); });
}

} // namespace weft
