#include "tools/commands.h"
#include "weft/core/picture.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <memory>

namespace weft {

void add_show_command(CLI::App& app) {
  const auto text = std::make_shared<std::string>();
  auto* command = app.add_subcommand("show", "Draw which ranks hold which part of a tensor");
  command->add_option("spec", *text, "The tensor, as in \"f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}\"")->required();
  command->callback([text] { std::cout << draw(*TensorSpec::parse(*text)); });
}

} // namespace weft
