#include "weft/graph/report/explain.h"

#include "weft/core/dtype_text.h"
#include "weft/graph/analysis/fused_node.h"
#include "weft/graph/analysis/number_text.h"
#include "weft/graph/ir/module_stack.h"
#include "weft/styles/nearest.h"

#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace weft::graph {

namespace {

using Json = nlohmann::ordered_json;

std::string type_text(const Value& value) {
  if (!value.is_tensor()) {
    const auto& number = std::get<NumberType>(value.type);
    return number.kind == NumberKind::Int ? "int" : number.kind == NumberKind::Float ? "float" : "bool";
  }
  std::vector<std::string> sizes;
  for (const auto& size : value.tensor().sizes) {
    sizes.push_back(size.to_string());
  }
  return c10::str(dtype_text(value.tensor().dtype), "[", c10::Join(",", sizes), "]");
}

Explanation::Tensor tensor_of(const Value& value) {
  return {value.name(), type_text(value), value.layout ? value.layout->to_string() : ""};
}

/// The calls that use a redistribution, through further steps.
std::string wanted_by(const Node& step) {
  std::vector<std::string> users;
  for (const auto& use : step.output()->uses()) {
    auto user = use.node->step() != nullptr ? wanted_by(*use.node)
        : use.node->is_return()             ? std::string("the program's output")
                                            : target_name(*use.node) +
            (use.node->outputs().empty() || use.node->output() == nullptr ? "" : " %" + use.node->output()->name());
    if (std::find(users.begin(), users.end(), user) == users.end()) {
      users.push_back(std::move(user));
    }
  }
  constexpr size_t kFew = 3;
  if (users.size() > kFew) {
    const auto others = users.size() - kFew;
    users.resize(kFew);
    users.push_back(c10::str(others, " more"));
  }
  return c10::Join(", ", users);
}

class Explaining {
 public:
  explicit Explaining(const Program& program) : program_(program) {}

  Explanation run() {
    result_.mesh = program_.mesh->to_string();
    result_.summary = summarize(program_);
    add_given();
    module_of("", "");
    for (const auto* node = program_.graph->first(); node != nullptr; node = node->next()) {
      add(*node);
    }
    return std::move(result_);
  }

 private:
  void add_given() {
    for (const auto& input : program_.inputs) {
      if (input.value == nullptr) {
        continue;
      }
      const auto* kind = input.kind == InputKind::Parameter ? "parameter"
          : input.kind == InputKind::Buffer                 ? "buffer"
          : input.kind == InputKind::Constant               ? "constant"
                                                            : "input";
      const auto name = input.target.empty() ? input.value->name() : input.target;
      result_.given.push_back({kind, name, tensor_of(*input.value)});
    }
  }

  Explanation::Module& module_of(const std::string& path, const std::string& type) {
    const auto [found, is_new] = modules_.try_emplace(path, result_.modules.size());
    if (is_new) {
      result_.modules.push_back({path, type});
    }
    return result_.modules[found->second];
  }

  void add(const Node& node) {
    Explanation::Row row;
    row.target = target_name(node);
    row.module = node.origin.module.str();
    row.name = node.outputs().empty() || node.output() == nullptr ? row.target : node.output()->name();
    for (size_t i = 0; i < node.operand_count(); ++i) {
      row.operands.push_back(tensor_of(*node.operand(i)));
    }
    for (const auto* output : node.outputs()) {
      if (output != nullptr) {
        row.outputs.push_back(tensor_of(*output));
      }
    }
    if (const auto* step = node.step()) {
      row.communicates = communicates(step->kind);
      row.bytes = row.communicates ? received_bytes(program_, node) : 0;
      row.change = c10::str(
          program_.mesh->dims_text(step->mesh_dims), ": ", step->before.to_string(), " -> ", step->after.to_string());
      row.reason = "for " + wanted_by(node);
    } else if (const auto fused = fused_node(node)) {
      const auto inside = step_inside(node, *fused, *program_.mesh);
      row.communicates = true;
      row.bytes = received_bytes(program_, node);
      row.change = c10::str(
          program_.mesh->dims_text(inside.mesh_dims), ": ", inside.before.to_string(), " -> ",
          inside.after.to_string());
      row.reason = node.sharding == nullptr ? "" : node.sharding->reason;
      row.chunks = fused->chunks;
    } else if (node.sharding != nullptr) {
      row.reason = node.sharding->reason;
      row.is_fallback = node.sharding->is_fallback;
    }
    count(node, row);
    result_.rows.push_back(std::move(row));
  }

  /// Counts the node in every module around it, once each; a node without modules belongs to the model itself.
  void count(const Node& node, const Explanation::Row& row) {
    std::vector<std::pair<std::string, std::string>> around = {{"", ""}};
    for (const auto& [path, type] : module_stack(node.origin)) {
      if (path.empty()) {
        module_of("", type).type = type;
      } else {
        around.emplace_back(path, type);
      }
    }
    if (!node.origin.module.empty() && around.back().first != node.origin.module.str()) {
      around.emplace_back(node.origin.module.str(), node.origin.module_type.str());
    }
    for (const auto& [path, type] : around) {
      auto& module = module_of(path, type);
      ++module.nodes;
      module.collectives += row.communicates ? 1 : 0;
      module.bytes += row.bytes;
    }
  }

  const Program& program_;
  Explanation result_;
  std::unordered_map<std::string, size_t> modules_;
};

bool is_inside(const std::string& module, const std::string& path) {
  return module == path ||
      (module.size() > path.size() && module.compare(0, path.size(), path) == 0 && module[path.size()] == '.');
}

/// The requested rows. Raises for an unknown name, with the nearest names.
std::vector<const Explanation::Row*> selected(const Explanation& explanation, const std::string& node) {
  std::vector<const Explanation::Row*> rows;
  std::vector<std::string> names;
  for (const auto& row : explanation.rows) {
    names.push_back(row.name);
    const bool gives_it = std::any_of(
        row.outputs.begin(), row.outputs.end(), [&](const Explanation::Tensor& output) { return output.name == node; });
    if (node.empty() || row.name == node || gives_it || is_inside(row.module, node)) {
      rows.push_back(&row);
    }
  }
  for (const auto& module : explanation.modules) {
    names.push_back(module.path);
  }
  TORCH_CHECK_VALUE(
      !rows.empty(), "[explain] a node or a module of the program is required, but got \"", node,
      "\". The nearest are: ", c10::Join(", ", nn::nearest(node, names)), ".");
  return rows;
}

std::string tensors_text(const std::vector<Explanation::Tensor>& tensors) {
  std::vector<std::string> texts;
  for (const auto& tensor : tensors) {
    if (!tensor.layout.empty()) {
      texts.push_back(tensor.type + " " + tensor.layout);
    }
  }
  return texts.empty() ? "()" : c10::Join(", ", texts);
}

Json to_json(const std::vector<Explanation::Tensor>& tensors) {
  auto json = Json::array();
  for (const auto& tensor : tensors) {
    Json each = {{"name", tensor.name}, {"type", tensor.type}};
    if (!tensor.layout.empty()) {
      each["layout"] = tensor.layout;
    }
    json.push_back(std::move(each));
  }
  return json;
}

Json to_json(const Explanation::Row& row) {
  Json json = {{"name", row.name}, {"target", row.target}, {"module", row.module}};
  json["operands"] = to_json(row.operands);
  json["outputs"] = to_json(row.outputs);
  if (!row.change.empty()) {
    json["change"] = row.change;
    json["communicates"] = row.communicates;
    json["bytes"] = row.bytes;
  }
  if (row.chunks != 0) {
    json["chunks"] = row.chunks;
  }
  if (row.is_fallback) {
    json["fallback"] = true;
  }
  if (!row.reason.empty()) {
    json["reason"] = row.reason;
  }
  return json;
}

void print_row(std::ostream& out, const Explanation::Row& row) {
  if (row.chunks != 0) {
    out << "  => " << row.target << " %" << row.name << " " << row.change << ", " << byte_text(row.bytes) << " in "
        << row.chunks << (row.chunks == 1 ? " chunk: " : " chunks: ") << tensors_text(row.operands) << " -> "
        << tensors_text(row.outputs) << "\n      " << row.reason << "\n";
    return;
  }
  if (!row.change.empty()) {
    out << "  " << (row.communicates ? "=> " : "-> ") << row.target << " " << row.change
        << (row.communicates ? ", " + byte_text(row.bytes) : ", nothing moves") << ", " << row.reason << "\n";
    return;
  }
  out << "  " << row.target << " %" << row.name << ": " << tensors_text(row.operands) << " -> "
      << tensors_text(row.outputs) << (row.is_fallback ? "  FALLBACK" : "")
      << (row.reason.empty() ? "" : "\n      " + row.reason) << "\n";
}

} // namespace

std::string Explanation::to_string(const std::string& node) const {
  std::ostringstream out;
  const auto rows_shown = selected(*this, node);
  if (node.empty()) {
    out << mesh << "\n" << summary.to_string() << "\nparameters that are sharded\n";
    for (const auto& each : given) {
      if (each.kind == "parameter" && each.tensor.layout.find("S(") != std::string::npos) {
        out << "  " << each.name << ": " << each.tensor.type << " " << each.tensor.layout << "\n";
      }
    }
  }
  std::vector<std::string> decided;
  for (const auto& decision : overlap) {
    if (node.empty() || decision.node == node || is_inside(decision.module, node)) {
      decided.push_back("  " + decision.to_string() + "\n");
    }
  }
  if (!decided.empty()) {
    out << "\ncollectives that overlap matmuls\n" << c10::Join("", decided);
  }
  const std::string* shown = nullptr;
  for (const auto* row : rows_shown) {
    if (shown == nullptr || *shown != row->module) {
      shown = &row->module;
      out << "\n" << (row->module.empty() ? "(the model itself)" : row->module);
      const auto found = std::find_if(
          modules.begin(), modules.end(), [&](const Module& module) { return module.path == row->module; });
      if (found != modules.end() && found->collectives != 0 && !row->module.empty()) {
        out << "  [" << found->collectives << (found->collectives == 1 ? " collective, " : " collectives, ")
            << byte_text(found->bytes) << "]";
      }
      out << "\n";
    }
    print_row(out, *row);
  }
  return out.str();
}

std::string Explanation::to_json(const std::string& node) const {
  Json json = {{"mesh", mesh}, {"summary", Json::parse(summary.to_json())}};
  const auto rows_shown = selected(*this, node);
  if (node.empty()) {
    json["given"] = Json::array();
    for (const auto& each : given) {
      Json one = {{"kind", each.kind}, {"name", each.name}, {"type", each.tensor.type}};
      if (!each.tensor.layout.empty()) {
        one["layout"] = each.tensor.layout;
      }
      json["given"].push_back(std::move(one));
    }
    json["modules"] = Json::array();
    for (const auto& module : modules) {
      json["modules"].push_back(
          {{"path", module.path},
           {"type", module.type},
           {"nodes", module.nodes},
           {"collectives", module.collectives},
           {"bytes", module.bytes}});
    }
  }
  json["overlap"] = Json::array();
  for (const auto& decision : overlap) {
    if (node.empty() || decision.node == node || is_inside(decision.module, node)) {
      json["overlap"].push_back(Json::parse(decision.to_json()));
    }
  }
  json["nodes"] = Json::array();
  for (const auto* row : rows_shown) {
    json["nodes"].push_back(graph::to_json(*row));
  }
  return json.dump();
}

Explanation explain(const Program& program, OverlapDecisions overlap) {
  TORCH_CHECK_VALUE(program.mesh, "[explain] a program that tensor_parallel made parallel is required.");
  auto explanation = Explaining(program).run();
  explanation.overlap = std::move(overlap);
  return explanation;
}

} // namespace weft::graph
