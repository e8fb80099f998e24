#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/ir/value_table.h"
#include "weft/styles/module_layout.h"

#include <unordered_map>

namespace weft::graph {

/// The modules that a program was exported from, as far as the names of its parameters and the origins of its nodes
/// tell.
class ProgramModules {
 public:
  explicit ProgramModules(const Program& program);

  /// Modules have numbers; 0 is the model itself, with an empty path.
  const std::vector<nn::ModuleInfo>& modules() const {
    return modules_;
  }
  /// A call of a module, both by number.
  struct Call {
    size_t module;
    size_t call;
    friend bool operator==(const Call&, const Call&) = default;
  };
  /// The calls that contain a node, outermost first, without the call of the model itself.
  const std::vector<Call>& around(const Node& node);
  /// The position of a parameter: its module and its index among the module's parameters.
  struct ParameterPlace {
    size_t module;
    size_t parameter;
  };
  const std::unordered_map<std::string, ParameterPlace>& parameters() const {
    return parameters_;
  }
  /// The module whose weight a call uses, as weight_use says: the one that calls the layer, if it has the weight, tied or
  /// not, else the owner. nullptr if there is none.
  const nn::ModuleInfo* module_of_weight(const Node& node) const {
    const auto found = weight_users_.find(&node);
    return found == weight_users_.end() ? nullptr : &modules_[found->second];
  }

 private:
  size_t module(const std::string& path);
  void add_parameters(const Program& program);
  void set_kinds(const Program& program);
  /// A module that is never called, as T5's table that encoder and decoder share, is what the called modules with its
  /// weight are: an embedding, if one of them is.
  void set_uncalled_kinds();
  /// The innermost module around the call if the weight is its own or tied to its own, else the owner; none if the
  /// parameter is not called weight.
  std::optional<size_t> weight_user(const Node& node, const Input& weight);
  bool has_submodules(size_t module) const;

  std::vector<nn::ModuleInfo> modules_;
  std::vector<std::string> types_;
  std::unordered_map<std::string, size_t> by_path_;
  std::unordered_map<std::string, std::vector<Call>> stacks_; // by the text in the nodes' metadata
  std::unordered_map<std::string, size_t> calls_;
  NodeTable<const std::vector<Call>*> of_node_; // among the stacks
  std::unordered_map<std::string, ParameterPlace> parameters_;
  std::unordered_map<const Node*, size_t> weight_users_;
};

} // namespace weft::graph
