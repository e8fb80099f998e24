#include "weft/graph/parallelize/program_modules.h"

#include "weft/graph/ir/module_stack.h"
#include "weft/graph/parallelize/weight_use.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// The text that identifies the position of a node; nodes at the same position have the same text.
const std::string& place_of(const Origin& origin) {
  for (const auto& [key, text] : origin.metadata) {
    if (key == "nn_module_stack") {
      return text;
    }
  }
  return origin.module.str();
}

bool ends_with_name(const std::string& type, std::string_view name) {
  return type.ends_with(name) &&
      (type.size() == name.size() || !std::isalnum(static_cast<unsigned char>(type[type.size() - name.size() - 1])));
}

} // namespace

ProgramModules::ProgramModules(const Program& program) : of_node_(*program.graph) {
  module("");
  add_parameters(program);
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    around(*node);
  }
  set_kinds(program);
}

size_t ProgramModules::module(const std::string& path) {
  const auto [found, is_new] = by_path_.try_emplace(path, modules_.size());
  if (is_new) {
    modules_.push_back({path, nn::ModuleKind::Other, {}});
    types_.emplace_back();
  }
  return found->second;
}

void ProgramModules::add_parameters(const Program& program) {
  std::unordered_map<std::string_view, const at::Tensor*> tensors;
  tensors.reserve(program.tensors.size());
  for (const auto& [name, tensor] : program.tensors) {
    tensors.emplace(name, &tensor);
  }
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::Parameter) {
      continue;
    }
    const auto dot = input.target.rfind('.');
    const auto path = dot == std::string::npos ? std::string() : input.target.substr(0, dot);
    const auto owner = module(path);
    const auto tensor = tensors.find(input.target);
    const void* identity = tensor != tensors.end() && tensor->second->has_storage()
        ? tensor->second->const_data_ptr()
        : static_cast<const void*>(input.value);
    std::vector<int64_t> shape;
    for (const auto& size : input.value->tensor().sizes) {
      shape.push_back(size.number());
    }
    parameters_[input.target] = {owner, modules_[owner].parameters.size()};
    modules_[owner].parameters.push_back(
        {dot == std::string::npos ? input.target : input.target.substr(dot + 1), std::move(shape), identity});
  }
}

const std::vector<ProgramModules::Call>& ProgramModules::around(const Node& node) {
  auto& known = of_node_[&node];
  if (known != nullptr) {
    return *known;
  }
  const auto [found, is_new] = stacks_.try_emplace(place_of(node.origin));
  known = &found->second;
  if (is_new) {
    for (const auto& [path, type, text] : module_calls(node.origin)) {
      if (!path.empty()) {
        const auto number = module(std::string(path));
        types_[number] = type;
        found->second.push_back({number, calls_.try_emplace(std::string(text), calls_.size() + 1).first->second});
      }
    }
  }
  return found->second;
}

void ProgramModules::set_kinds(const Program& program) {
  for (size_t i = 0; i < modules_.size(); ++i) {
    if (ends_with_name(types_[i], "Linear")) {
      modules_[i].kind = nn::ModuleKind::Linear;
    } else if (ends_with_name(types_[i], "Embedding")) {
      modules_[i].kind = nn::ModuleKind::Embedding;
    }
  }
  // A module of a user's own type is what its weight is used as.
  std::unordered_map<const Value*, const Input*> inputs;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::Parameter) {
      inputs[input.value] = &input;
    }
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    const auto use = weight_use(*node, [&](const Value* value) { return inputs.count(value) != 0; });
    const auto user = use && !use->is_stack() ? weight_user(*node, *inputs.at(use->weight)) : std::nullopt;
    if (user) {
      weight_users_[node] = *user;
      auto& kind = modules_[*user].kind;
      kind = kind == nn::ModuleKind::Other ? use->kind : kind;
    }
  }
  set_uncalled_kinds();
}

void ProgramModules::set_uncalled_kinds() {
  std::unordered_map<const void*, nn::ModuleKind> by_weight;
  const auto for_weights = [&](const auto& visit) {
    for (size_t i = 0; i < modules_.size(); ++i) {
      for (const auto& parameter : modules_[i].parameters) {
        if (parameter.name == "weight") {
          visit(i, parameter.identity);
        }
      }
    }
  };
  for_weights([&](size_t module, const void* weight) {
    const auto kind = modules_[module].kind;
    if (kind == nn::ModuleKind::Embedding || kind == nn::ModuleKind::Linear) {
      auto& known = by_weight.try_emplace(weight, kind).first->second;
      known = kind == nn::ModuleKind::Embedding ? kind : known;
    }
  });
  for_weights([&](size_t module, const void* weight) {
    const auto known = by_weight.find(weight);
    if (types_[module].empty() && modules_[module].kind == nn::ModuleKind::Other && known != by_weight.end()) {
      modules_[module].kind = known->second;
    }
  });
}

std::optional<size_t> ProgramModules::weight_user(const Node& node, const Input& weight) {
  const auto& [owner, parameter] = parameters_.at(weight.target);
  const auto own = modules_[owner].parameters[parameter];
  const auto has_it = [&](const nn::ModuleInfo& module) {
    return std::any_of(module.parameters.begin(), module.parameters.end(), [&](const nn::ParameterInfo& each) {
      return each.name == "weight" && each.identity == own.identity;
    });
  };
  const auto& calls = around(node);
  const auto caller = calls.empty() ? owner : calls.back().module;
  if (has_it(modules_[caller])) {
    return caller;
  }
  if (own.name != "weight") {
    return std::nullopt;
  }
  // A strict export keeps one of several tied parameters. A module that lost its own calls the layer of a module that is
  // called elsewhere, or is itself a layer, of a type of its own or not, as the tables of encoder and decoder are of models whose
  // owner of both is never called.
  const bool is_layer = types_[caller].ends_with("Linear") || types_[caller].ends_with("Embedding");
  const bool lost_its_own =
      modules_[caller].parameters.empty() && (is_layer || !types_[owner].empty()) && !has_submodules(caller);
  if (lost_its_own) {
    modules_[caller].parameters.push_back(own);
  }
  return lost_its_own ? caller : owner;
}

bool ProgramModules::has_submodules(size_t module) const {
  const auto prefix = modules_[module].path + ".";
  return std::any_of(modules_.begin(), modules_.end(), [&](const nn::ModuleInfo& other) {
    return modules_[module].path.empty() || other.path.starts_with(prefix);
  });
}

} // namespace weft::graph
