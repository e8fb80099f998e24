#include "tools/model_options.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/deploy/weights_folder.h"
#include "weft/graph/parallelize/tied_modules.h"
#include "weft/graph/propose/unsharded_layers.h"
#include "weft/overlap/measure/compute_rate.h"
#include "weft/styles/module_layout.h"

#include <c10/util/Exception.h>
#include <CLI/CLI.hpp>

#include <iostream>

namespace weft {

namespace {

constexpr std::string_view kMeasured = "measured";

/// "x={S(0),R}": what is before the first "=", and the layout behind it.
std::pair<std::string, Layout> named_layout(const std::string& text) {
  const auto equals = text.find('=');
  TORCH_CHECK_VALUE(equals != std::string::npos && equals > 0, "there is no name before a \"=\"");
  return {text.substr(0, equals), Layout::parse(text.substr(equals + 1))};
}

std::pair<size_t, Layout> numbered_layout(const std::string& text) {
  auto [name, layout] = named_layout(text);
  TORCH_CHECK_VALUE(
      name.find_first_not_of("0123456789") == std::string::npos && name.size() < 10, "\"", name, "\" is no position");
  return {std::stoul(name), std::move(layout)};
}

std::string check_mesh(const std::string& text) {
  return complaint(text, "a mesh as in tp=4 or dp=2,tp=2", [&] { DeviceMesh::parse("mesh(" + text + ")"); });
}

} // namespace

std::string complaint(const std::string& text, const char* example, const std::function<void()>& read) {
  try {
    read();
    return {};
  } catch (const c10::Error& error) {
    return c10::str(example, " is required, but got '", text, "': ", error.what_without_backtrace());
  }
}

void add_model_file(CLI::App& command, std::string& path) {
  command.add_option("model", path, "The exported program, a file that torch.export.save wrote")->required();
}

void add_mesh(CLI::App& command, std::string& mesh) {
  command.add_option("--mesh", mesh, "The mesh of ranks, as in tp=4 or dp=2,tp=2")->required()->check(check_mesh);
}

void add_json(CLI::App& command, bool& is_json) {
  command.add_flag("--json", is_json, "Print one JSON object instead of text");
}

void OverlapArguments::add_to(CLI::App& command) {
  command
      .add_option(
          "--overlap", mode_,
          "Overlap collectives with the matmuls that need them: where it pays, nowhere, or wherever possible")
      ->check(CLI::IsMember({"auto", "off", "force"}))
      ->capture_default_str();
  command.add_option("--link", link_, "The assumed link between ranks, latency and rate, as in 50us,125MB/s")
      ->check([](const std::string& text) {
        return complaint(text, "a latency and a rate as in 50us,125MB/s", [&] { parse_link(text); });
      });
  command
      .add_option(
          "--compute", compute_,
          "The assumed speed of a rank: flops, memory and the time of a call, as in 100Gflop/s,27GB/s,1us; "
          "measured, to time this machine")
      ->check([](const std::string& text) {
        return text == kMeasured ? std::string()
                                 : complaint(text, "rates as in 100Gflop/s,27GB/s,1us", [&] { parse_compute(text); });
      });
}

graph::OverlapOptions OverlapArguments::options() const {
  graph::OverlapOptions options{.mode = parse_overlap_mode(mode_)};
  if (!link_.empty()) {
    options.link = parse_link(link_);
  }
  if (!compute_.empty()) {
    options.compute = compute_ == kMeasured ? measured_compute(at::kCPU, at::kFloat) : parse_compute(compute_);
  }
  return options;
}

void ModelOptions::add_to(CLI::App& command) {
  add_model_file(command, model_);
  add_mesh(command, mesh_);
  command.add_option("--plan", plan_, "The plan file: module patterns and styles, as docs/parallel.md says")
      ->required();
  command.add_option("--mesh-dim", mesh_dim_, "The mesh dim that the plan is for; tp, or the only one");
  command
      .add_option(
          "--input-layout", input_layouts_,
          "The layout of an input when the program is called, as in 'x={S(0)}'; replicated")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        return complaint(text, "an input and its layout as in 'x={S(0)}'", [&] { named_layout(text); });
      });
  command
      .add_option(
          "--output-layout", output_layouts_, "The layout of an output, by position, as in '0={S(-1)}'; replicated")
      ->allow_extra_args(false)
      ->check([](const std::string& text) {
        return complaint(text, "an output's position and its layout as in '0={S(-1)}'", [&] { numbered_layout(text); });
      });
  overlap_.add_to(command);
}

void ModelOptions::add_weights_to(CLI::App& command) {
  auto* weights = command.add_option(
      "--weights", weights_,
      "A folder of safetensors files, or a checkpoint of weft.save, in place of the weights in the model's file");
  command.add_option("--key-map", key_map_, "A JSON file: of which tensors of --weights each weight is made")
      ->needs(weights);
}

ShardedModel ModelOptions::sharded(const graph::ReadOptions& reading, const graph::PassOptions& passes) const {
  graph::TensorParallelOptions options;
  if (!mesh_dim_.empty()) {
    options.mesh_dim = mesh_dim_;
  }
  for (const auto& text : input_layouts_) {
    options.inputs.insert(named_layout(text));
  }
  for (const auto& text : output_layouts_) {
    options.outputs.insert(numbered_layout(text));
  }
  const auto plan = nn::ParallelPlan::load(plan_);
  auto program_reading = reading;
  program_reading.verifies_weights = reading.verifies_weights && weights_.empty();
  auto program = graph::read_pt2(model_, program_reading);
  if (!weights_.empty()) {
    const auto unused = graph::use_weights(program, weights_, key_map_.empty() ? KeyMap() : KeyMap::load(key_map_));
    if (!unused.empty()) {
      std::cerr << "weft: " << weights_ << ": the model has no weight for " << unused.size() << " of its tensors, "
                << unused[0] << " for one\n";
    }
  }
  const auto mesh = analysis_mesh(mesh_);
  auto notes = graph::tied_module_notes(program, plan);
  const auto ranks = mesh.size(nn::plan_mesh_dim(mesh, options.mesh_dim, "tensor_parallel"));
  if (auto note = graph::unsharded_layers_note(program, plan, ranks)) {
    notes.push_back(*std::move(note));
  }
  auto decisions = graph::shard(program, mesh, plan, options, overlap_.options(), passes);
  for (const auto& unit : plan.units()) {
    std::cerr << "weft: plan entry \"" << unit.pattern << "\" is fully sharded over " << unit.mesh_dim
              << " by parallelize_module; a program holds those parameters on every rank of " << unit.mesh_dim << "\n";
  }
  for (const auto& note : notes) {
    std::cerr << "weft: " << note << "\n";
  }
  return {std::move(program), std::move(decisions)};
}

} // namespace weft
