#pragma once

#include "weft/graph/deploy/shard.h"
#include "weft/graph/pt2/read_pt2.h"

namespace CLI {
class App;
}

namespace weft {

/// A model made parallel, and for each collective next to a matmul whether they are fused.
struct ShardedModel {
  graph::Program program;
  graph::OverlapDecisions overlap;
};

/// When collectives overlap matmuls, and the rates that decide it.
class OverlapArguments {
 public:
  void add_to(CLI::App& command);
  graph::OverlapOptions options() const;

 private:
  std::string mode_ = "auto";
  std::string link_;
  std::string compute_;
};

/// The options that all commands which shard a model have: the file, the mesh, the plan, layouts of inputs and outputs, and
/// whether collectives overlap matmuls.
class ModelOptions {
 public:
  /// Adds the options to a command.
  void add_to(CLI::App& command);

  /// Adds the options that take the weights from elsewhere than the model's file.
  void add_weights_to(CLI::App& command);

  /// The model, sharded.
  ShardedModel sharded(const graph::ReadOptions& reading = {}, const graph::PassOptions& passes = {}) const;

 private:
  std::string model_;
  std::string mesh_;
  std::string plan_;
  std::string mesh_dim_;
  std::vector<std::string> input_layouts_;
  std::vector<std::string> output_layouts_;
  OverlapArguments overlap_;
  std::string weights_;
  std::string key_map_;
};

/// An error text with an example, where `read` raises on a text; empty where it can be read.
std::string complaint(const std::string& text, const char* example, const std::function<void()>& read);

/// The options of a model file and of a mesh by themselves.
void add_model_file(CLI::App& command, std::string& path);
void add_mesh(CLI::App& command, std::string& mesh);
void add_json(CLI::App& command, bool& is_json);

} // namespace weft
