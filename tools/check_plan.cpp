#include "tools/commands.h"
#include "tools/model_options.h"
#include "weft/styles/parallel_plan.h"

#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iostream>
#include <memory>

namespace weft {

namespace {

std::vector<std::string> lines_of(std::istream& in) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> lines_of(const std::string& path) {
  if (path == "-") {
    return lines_of(std::cin);
  }
  std::ifstream file(path);
  TORCH_CHECK_VALUE(file.good(), "[check-plan] a file of module paths is required, but ", path, " cannot be read.");
  return lines_of(file);
}

void check_plan(const std::string& path, const std::string& modules, bool is_json) {
  const auto plan = nn::ParallelPlan::load(path);
  if (modules.empty()) {
    std::cout << plan.to_string() << "\n";
    return;
  }
  const auto paths = lines_of(modules);
  const auto entries = nn::match(plan, paths);
  std::vector<const nn::ParallelPlan::Unit*> units(paths.size(), nullptr);
  for (const auto& [number, unit] : nn::match_units(plan, paths)) {
    units[number] = unit;
  }
  if (is_json) {
    auto json = nlohmann::ordered_json::object();
    for (size_t i = 0; i < paths.size(); ++i) {
      json[paths[i]] = entries[i] == nullptr ? nlohmann::json() : nlohmann::json::parse(entries[i]->style.to_string());
      if (units[i] != nullptr) {
        json[paths[i]].update(nlohmann::ordered_json::parse(units[i]->to_string()));
      }
    }
    std::cout << json.dump() << "\n";
    return;
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto style = entries[i] == nullptr ? std::string() : entries[i]->style.to_string();
    const auto unit = units[i] == nullptr ? std::string() : units[i]->to_string();
    std::cout << paths[i] << ": " << style << (style.empty() || unit.empty() ? "" : " ") << unit
              << (style.empty() && unit.empty() ? "not named" : "") << "\n";
  }
}

} // namespace

void add_check_plan_command(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  const auto modules = std::make_shared<std::string>();
  auto* command = app.add_subcommand("check-plan", "Read a plan of parallel modules and print it with all its options");
  command->add_option("plan", *path, "The plan file (JSON)")->required();
  command->add_option(
      "--modules", *modules,
      "A file of module paths, one per line, - for stdin: print the style of each; a pattern that matches none is an "
      "error");
  const auto is_json = std::make_shared<bool>(false);
  add_json(*command, *is_json);
  command->footer(
      "Example:\n  weft check-plan plan.json --modules modules.txt\nThe plan by itself is JSON in any case.");
  command->callback([path, modules, is_json] { check_plan(*path, *modules, *is_json); });
}

} // namespace weft
