#include "tools/commands.h"
#include "tools/model_options.h"
#include "weft/graph/overlap/micro_pipeline.h"
#include "weft/graph/pt2/write_pt2.h"

#include <c10/util/StringUtil.h>
#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

namespace weft {

namespace {

struct OverlapCommand {
  std::string input;
  std::string output;
  OverlapArguments overlap;
  std::vector<std::string> groups;  // "0=off"
  std::vector<std::string> members; // "0=4"
  bool is_json = false;
};

/// "tp=off": the name of a group, and what is behind the last "=".
std::pair<std::string, std::string> of_group(const std::string& text) {
  const auto equals = text.rfind('=');
  TORCH_CHECK_VALUE(equals != std::string::npos && equals > 0, "there is no name before a \"=\"");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::pair<std::string, OverlapMode> mode_of_group(const std::string& text) {
  const auto [name, mode] = of_group(text);
  return {name, parse_overlap_mode(mode)};
}

std::pair<std::string, int64_t> members_of_group(const std::string& text) {
  const auto [name, number] = of_group(text);
  TORCH_CHECK_VALUE(
      !number.empty() && number.size() < 10 && number.find_first_not_of("0123456789") == std::string::npos, "\"",
      number, "\" is no number");
  return {name, std::stol(number)};
}

void overlap(const OverlapCommand& command) {
  auto options = command.overlap.options();
  for (const auto& text : command.groups) {
    options.modes_of_groups.insert(mode_of_group(text));
  }
  for (const auto& text : command.members) {
    options.members.insert(members_of_group(text));
  }
  auto program = graph::read_pt2(command.input);
  const auto decisions = graph::micro_pipeline(program, options);
  graph::write_pt2(program, command.output);
  std::vector<std::string> lines;
  int64_t fused = 0;
  for (const auto& decision : decisions) {
    lines.push_back(command.is_json ? decision.to_json() : decision.to_string() + "\n");
    fused += static_cast<int64_t>(decision.fused);
  }
  if (command.is_json) {
    std::cout << "{\"overlap\": [" << c10::Join(", ", lines) << "]}\n";
    return;
  }
  std::cout << c10::Join("", lines) << "written to   " << command.output << ": " << fused << " of " << decisions.size()
            << (decisions.size() == 1 ? " collective fused\n" : " collectives fused\n");
}

} // namespace

void add_overlap_command(CLI::App& app) {
  const auto options = std::make_shared<OverlapCommand>();
  auto* command = app.add_subcommand(
      "overlap", "Fuse the collectives of a rank's program with the matmuls next to them, where that pays");
  command
      ->add_option(
          "model", options->input, "The exported program, a file that torch.export.save wrote, with collectives")
      ->required();
  command->add_option("-o,--output", options->output, "The file to write")->required();
  options->overlap.add_to(*command);
  command
      ->add_option(
          "--group", options->groups, "Another --overlap for collectives over a group, by its name, as in 'tp=off'")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        return complaint(text, "a group and auto, off or force as in 'tp=off'", [&] { mode_of_group(text); });
      });
  command
      ->add_option(
          "--group-size", options->members,
          "The number of members of a group, as in 'tp=4', which all-reduces do not state and need to be fused")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        return complaint(text, "a group and its number of members as in 'tp=4'", [&] { members_of_group(text); });
      });
  add_json(*command, options->is_json);
  command->footer(
      "Examples:\n"
      "  weft overlap rank_0.pt2 -o fused.pt2 --link 50us,125MB/s --compute 100Gflop/s,27GB/s,1us\n"
      "  weft overlap rank_0.pt2 -o fused.pt2 --overlap force --group dp=off\n"
      "All ranks must run programs of the same decisions: give the same options for each rank's file.");
  command->callback([options] { overlap(*options); });
}

} // namespace weft
