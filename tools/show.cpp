#include "tools/commands.h"
#include "tools/model_options.h"
#include "weft/core/picture.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace weft {

namespace {

void show(const std::string& text, bool is_json) {
  const auto spec = TensorSpec::parse(text);
  if (!is_json) {
    std::cout << draw(*spec);
    return;
  }
  nlohmann::ordered_json json = {{"spec", spec->to_string()}, {"ranks", nlohmann::json::array()}};
  const auto& mesh = spec->mesh();
  for (int64_t i = 0; i < mesh.size(); ++i) {
    const auto coordinate = coordinate_at(i, mesh.shape());
    const auto held = local_shape_and_offset(spec->sizes(), spec->layout(), mesh.shape(), coordinate);
    json["ranks"].push_back(
        {{"rank", mesh.ranks()[i]},
         {"coordinate", coordinate},
         {"offset", std::vector<int64_t>(held.offset.begin(), held.offset.end())},
         {"shape", std::vector<int64_t>(held.shape.begin(), held.shape.end())}});
  }
  std::cout << json.dump() << "\n";
}

} // namespace

void add_show_command(CLI::App& app) {
  const auto text = std::make_shared<std::string>();
  auto* command = app.add_subcommand("show", "Draw which ranks hold which elements of a tensor");
  command->add_option("spec", *text, "The tensor, as in \"f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}\"")->required();
  const auto is_json = std::make_shared<bool>(false);
  add_json(*command, *is_json);
  command->footer("Example:\n  weft show 'f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}'");
  command->callback([text, is_json] { show(*text, *is_json); });
}

} // namespace weft
