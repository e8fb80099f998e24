#pragma once

#include "weft/graph/parallelize/program_modules.h"
#include "weft/graph/parallelize/redistributions.h"

namespace weft::graph {

/// What a plan says of a program: where parameters lie, and where the values go that enter and leave its modules.
class ModuleBoundaries {
 public:
  ModuleBoundaries(
      const Program& program,
      const DeviceMesh& mesh,
      const nn::ParallelPlan& plan,
      const std::optional<std::string>& mesh_dim,
      Redistributions& redistributions);

  Layout parameter_layout(const Input& input) const;
  /// As the entry for the model itself says: inputs as they come, outputs as they leave.
  Layout user_input_layout(size_t position, const Value& value) const;
  /// Along other mesh dims outputs stay where they are; nothing leaves as terms of a reduction unless the plan says so.
  Layout user_output_layout(size_t position, const Value& value) const;
  /// Brings user inputs where the entry for the model itself wants them.
  void enter_model(const std::vector<Value*>& inputs, Node* first);

  /// Before a node is analysed: brings operands that enter modules with it where these want them.
  void enter(Node* node);
  /// After it has outputs: brings those that leave modules where these give them, for all that use them outside.
  void leave(Node* node);

 private:
  using Crossings = std::vector<nn::Crossing>;

  using Call = ProgramModules::Call;

  bool is_in(const Node& node, const Call& call);
  /// Whether a value that no node makes is the module's own, and so none of its inputs. Buffers of other modules may be.
  bool is_own(const Value* value, const Call& call) const;
  Value* cross(Value* value, const Crossings& crossings, std::vector<const Value*>& order, Node* before);
  Layout replicated() const;

  const DeviceMesh mesh_;
  Redistributions& redistributions_;
  ProgramModules modules_;
  int64_t mesh_dim_;
  std::vector<nn::ModuleLayout> layouts_;          // by module
  std::vector<std::vector<const Value*>> entered_; // by call, the values that entered, in order
  std::vector<std::vector<const Value*>> left_;
  std::vector<char> has_inputs_; // by module: whether anything is to be done there
  std::vector<char> has_outputs_;
  ValueSet constants_;                                    // and parameters: no module is given them
  std::unordered_map<const Value*, std::string> buffers_; // by name
};

} // namespace weft::graph
