#include "tools/commands.h"
#include "tools/model_options.h"
#include "tools/progress_bar.h"
#include "weft/checkpoint/convert.h"
#include "weft/checkpoint/huggingface.h"
#include "weft/checkpoint/manifest.h"
#include "weft/core/dtype_text.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace weft {

namespace {

struct CheckpointOptions {
  std::string source;
  std::string target;
  std::string format = "hf";
  ConvertOptions convert;
  double max_gigabytes = 5;
  bool is_json = false;
};

StoredTensors stored_in(const std::string& folder) {
  return is_huggingface(folder) ? read_huggingface(folder) : load_manifest(folder, "weft checkpoint").stored;
}

void show(const CheckpointOptions& options) {
  const auto stored = stored_in(options.source);
  uint64_t bytes = 0;
  nlohmann::ordered_json tensors = nlohmann::ordered_json::object();
  for (const auto& [name, tensor] : stored.tensors) {
    bytes += static_cast<uint64_t>(block_numel(full_block(tensor.sizes))) * c10::elementSize(tensor.dtype);
    tensors[name] = {
        {"dtype", dtype_text(tensor.dtype)},
        {"shape", c10::IntArrayRef(tensor.sizes).vec()},
        {"parts", tensor.parts.size()}};
  }
  if (options.is_json) {
    nlohmann::ordered_json json = {
        {"files", stored.files.size()},
        {"bytes", bytes},
        {"tensors", std::move(tensors)},
        {"values", nlohmann::json::object()}};
    for (const auto& [name, text] : stored.values) {
      json["values"][name] = nlohmann::ordered_json::parse(text);
    }
    std::cout << json.dump() << "\n";
    return;
  }
  for (const auto& [name, tensor] : stored.tensors) {
    std::cout << name << "  " << dtype_text(tensor.dtype) << c10::IntArrayRef(tensor.sizes);
    if (tensor.parts.size() > 1) {
      std::cout << "  in " << tensor.parts.size() << " parts";
    }
    std::cout << "\n";
  }
  for (const auto& [name, text] : stored.values) {
    std::cout << name << " = " << (text.size() > 80 ? text.substr(0, 77) + "..." : text) << "\n";
  }
  std::cout << stored.tensors.size() << " tensors of " << bytes << " bytes in " << stored.files.size() << " files\n";
}

using Convert = int64_t (*)(const StoredTensors&, const std::string&, const ConvertOptions&);

void convert(const CheckpointOptions& options, const StoredTensors& stored, Convert function) {
  TORCH_CHECK_VALUE(
      options.format == "hf",
      "[weft checkpoint] --format dcp is for Python, which reads these files: use `python -m weft._command ",
      "checkpoint ... --format dcp`, with the same arguments.");
  auto converting = options.convert;
  converting.max_file_bytes = static_cast<uint64_t>(options.max_gigabytes * 1e9);
  int64_t count = 0;
  {
    ProgressBar bar("writing " + options.target);
    converting.on_progress = [&](double done) { bar.show(done); };
    count = function(stored, options.target, converting);
  }
  if (options.is_json) {
    std::cout << nlohmann::ordered_json({{"folder", options.target}, {"tensors", count}}).dump() << "\n";
  } else {
    std::cout << "written to " << options.target << ": " << count << " tensors\n";
  }
}

void add_convert_options(CLI::App& command, CheckpointOptions& options) {
  command.add_option("-o,--output", options.target, "The folder to write")->required();
  command.add_option("--format", options.format, "hf: safetensors files as Hugging Face's libraries have them; dcp")
      ->check(CLI::IsMember({"hf", "dcp"}))
      ->capture_default_str();
  command.add_option("--max-file-gb", options.max_gigabytes, "The largest file, in gigabytes; as much memory is used")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_json(command, options.is_json);
}

} // namespace

void add_checkpoint_command(CLI::App& app) {
  auto* command = app.add_subcommand("checkpoint", "Show a checkpoint of weft.save, or convert one");
  command->require_subcommand(1);
  command->footer("Example:\n  weft checkpoint show run/step_100");

  const auto shown = std::make_shared<CheckpointOptions>();
  auto* show_command = command->add_subcommand("show", "List tensors and values");
  show_command->add_option("folder", shown->source, "A checkpoint, or a folder of safetensors files")->required();
  add_json(*show_command, shown->is_json);
  show_command->callback([shown] { show(*shown); });

  const auto exported = std::make_shared<CheckpointOptions>();
  auto* export_command = command->add_subcommand("export", "Write a checkpoint's tensors for another library");
  export_command->add_option("checkpoint", exported->source, "The folder that weft.save wrote")->required();
  export_command->add_option(
      "--prefix", exported->convert.prefix, "Export the tensors whose names begin so, without it, as in model.");
  add_convert_options(*export_command, *exported);
  export_command->footer(
      "Example:\n  weft checkpoint export run/step_100 --prefix model. -o llama\n"
      "from_pretrained also wants a config.json there: model.config.save_pretrained(\"llama\").");
  export_command->callback([exported] {
    convert(*exported, load_manifest(exported->source, "weft checkpoint").stored, &export_huggingface);
  });

  const auto imported = std::make_shared<CheckpointOptions>();
  auto* import_command = command->add_subcommand("import", "Write another library's weights as a checkpoint");
  import_command->add_option("folder", imported->source, "The folder of safetensors files")->required();
  import_command->add_option("--prefix", imported->convert.prefix, "What the names in the checkpoint begin with");
  add_convert_options(*import_command, *imported);
  import_command->footer("Example:\n  weft checkpoint import llama --prefix model. -o run/step_0");
  import_command->callback([imported] { convert(*imported, read_huggingface(imported->source), &import_tensors); });
}

} // namespace weft
