#include "weft/graph/parallelize/program_modules.h"

#include "weft/graph/ir/module_stack.h"

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

/// How a weight is used, for modules of user-defined types.
nn::ModuleKind kind_by_use(const Value* weight) {
  for (const auto& use : weight->uses()) {
    const auto& user = *use.node;
    if (calls(user, "aten::linear")) {
      return nn::ModuleKind::Linear;
    }
    if (calls(user, "aten::embedding")) {
      return nn::ModuleKind::Embedding;
    }
    if (calls(user, "aten::t") || calls(user, "aten::permute") || calls(user, "aten::transpose.int")) {
      for (const auto& further : user.output()->uses()) {
        const auto& product = *further.node;
        if (calls(product, "aten::addmm") || calls(product, "aten::mm") || calls(product, "aten::matmul")) {
          return nn::ModuleKind::Linear;
        }
      }
    }
  }
  return nn::ModuleKind::Other;
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
  for (const auto& input : program.inputs) {
    const auto found = parameters_.find(input.target);
    if (input.kind == InputKind::Parameter && found != parameters_.end() && input.target.ends_with("weight") &&
        modules_[found->second.module].kind == nn::ModuleKind::Other) {
      modules_[found->second.module].kind = kind_by_use(input.value);
    }
  }
}

} // namespace weft::graph
