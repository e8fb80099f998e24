#pragma once

#include "weft/graph/parallelize/program_modules.h"
#include "weft/graph/parallelize/redistributions.h"

namespace weft::graph {

/// A parallel plan applied to a program: the layouts of parameters, and of the values that enter and leave modules.
class ModuleBoundaries {
 public:
  ModuleBoundaries(
      const Program& program,
      const DeviceMesh& mesh,
      const nn::ParallelPlan& plan,
      const std::optional<std::string>& mesh_dim,
      Redistributions& redistributions);

  Layout parameter_layout(const Input& input) const;
  /// The layouts of user inputs and outputs, by the entry for the model itself.
  Layout user_input_layout(size_t position, const Value& value) const;
  /// Along other mesh dims outputs keep their layout, and no output is a partial sum unless the plan says so.
  Layout user_output_layout(size_t position, const Value& value) const;
  /// Redistributes user inputs to the layouts that the entry for the model itself asks for.
  void enter_model(const std::vector<Value*>& inputs, Node* first);

  /// Before a node is analysed: redistributes the operands that enter modules at this node to the layouts of the
  /// modules' inputs.
  void enter(Node* node);
  /// After the node has outputs: redistributes those that leave modules to the layouts of the modules' outputs, for all
  /// uses outside.
  void leave(Node* node);

 private:
  using Crossings = std::vector<nn::Crossing>;

  using Call = ProgramModules::Call;

  bool is_in(const Node& node, const Call& call);
  /// Whether a graph input belongs to the module and thus is not one of its inputs. Buffers of other modules can be
  /// inputs.
  bool is_own(const Value* value, const Call& call) const;
  /// The crossing of a value is that of its position among the values that crossed before.
  Value* cross(Value* value, const Crossings& crossings, std::vector<const Value*>& order, Node* before);
  Value* cross(Value* value, const nn::Crossing& crossing, Node* before);
  /// The crossing of an input is that of its keyword, or of its position.
  Value* cross_in(Value* value, const Call& call, Node* before);
  Layout replicated() const;

  const DeviceMesh mesh_;
  Redistributions& redistributions_;
  ProgramModules modules_;
  int64_t mesh_dim_;
  std::vector<nn::ModuleLayout> layouts_; // by module
  /// For every module, the crossings of inputs by keyword, by the names of the values.
  std::vector<std::unordered_map<std::string, nn::Crossing>> keywords_;
  std::vector<std::vector<const Value*>> entered_; // for every call, the values that entered, in order
  std::vector<std::vector<const Value*>> left_;
  std::vector<char> has_inputs_; // for every module: whether its inputs may need a redistribution
  std::vector<char> has_outputs_;
  ValueSet constants_;                                    // and parameters, which are no inputs of modules
  std::unordered_map<const Value*, std::string> buffers_; // by name
};

} // namespace weft::graph
