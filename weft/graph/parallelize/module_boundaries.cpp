#include "weft/graph/parallelize/module_boundaries.h"

#include "weft/core/layout_algebra.h"
#include "weft/graph/parallelize/keyword_values.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace weft::graph {

namespace {

constexpr std::string_view kWhere = "tensor_parallel";

/// All values of a program have global types, so that styles need no case for modules that get plain tensors.
nn::ParallelPlan without_local_tensors(const nn::ParallelPlan& plan) {
  auto entries = plan.entries();
  for (auto& [pattern, style] : entries) {
    style.local_inputs = false;
    style.local_outputs = false;
  }
  return nn::ParallelPlan(std::move(entries));
}

std::vector<const Value*>& of_call(std::vector<std::vector<const Value*>>& crossed, size_t call) {
  if (call >= crossed.size()) {
    crossed.resize(call + 1);
  }
  return crossed[call];
}

/// The crossings of the values that a module was called with by the keywords of its style, by the values' names.
std::unordered_map<std::string, nn::Crossing> crossings_by_value(
    const nn::ParallelPlan::Entry& entry,
    const std::string& path,
    const KeywordValues& called) {
  std::unordered_map<std::string, nn::Crossing> result;
  const auto where = nn::entry_text(entry, path, kWhere);
  const auto& keywords = entry.style.keyword_inputs;
  const auto known = called.find(path);
  TORCH_CHECK_VALUE(
      keywords.empty() || known != called.end(), where,
      "the program must say by which keywords the module was called, but it does not, and the style has the keyword \"",
      keywords.begin()->first, "\". Export it with preserve_module_call_signature=(\"", path,
      "\",), or say it with \"inputs\" (input_layouts), in the order in which the module uses them.");
  for (const auto& [keyword, crossing] : keywords) {
    const auto values = known->second.find(keyword);
    std::vector<std::string> names;
    for (const auto& each : known->second) {
      names.push_back(each.first);
    }
    TORCH_CHECK_VALUE(
        values != known->second.end(), where, "the module must be called with the keywords of the style, but \"",
        keyword, "\" is none of those that it is called with: ", names.empty() ? "none" : c10::Join(", ", names),
        ". Say it with \"inputs\" (input_layouts) if it is given by position.");
    for (const auto& value : values->second) {
      result.emplace(value, crossing);
    }
  }
  return result;
}

bool may_redistribute(const std::vector<nn::Crossing>& crossings) {
  return std::any_of(crossings.begin(), crossings.end(), [](const auto& crossing) { return crossing.to.has_value(); });
}

} // namespace

ModuleBoundaries::ModuleBoundaries(
    const Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const std::optional<std::string>& mesh_dim,
    Redistributions& redistributions)
    : mesh_(mesh),
      redistributions_(redistributions),
      modules_(program),
      mesh_dim_(nn::plan_mesh_dim(mesh, mesh_dim, kWhere)) {
  const auto global_plan = without_local_tensors(plan);
  layouts_ = nn::lay_out(global_plan, modules_.modules(), mesh, mesh_dim_, kWhere);
  const auto called = keyword_values(program);
  for (size_t m = 0; m < layouts_.size(); ++m) {
    auto& layout = layouts_[m];
    keywords_.push_back(
        layout.entry == nullptr ? std::unordered_map<std::string, nn::Crossing>()
                                : crossings_by_value(*layout.entry, modules_.modules()[m].path, called));
    layout.entry = nullptr; // points into the plan, which ends here
    has_inputs_.push_back(may_redistribute(layout.inputs) || !keywords_.back().empty() ? 1 : 0);
    has_outputs_.push_back(may_redistribute(layout.outputs) ? 1 : 0);
  }
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::Buffer) {
      buffers_[input.value] = input.target;
    } else if (input.kind != InputKind::User && input.value != nullptr) {
      constants_.insert(input.value);
    }
  }
}

Layout ModuleBoundaries::replicated() const {
  return weft::replicated(mesh_);
}

Layout ModuleBoundaries::parameter_layout(const Input& input) const {
  const auto [module, parameter] = modules_.parameters().at(input.target);
  return replicated().with(mesh_dim_, layouts_[module].parameters[parameter].value_or(Replicate()));
}

Layout ModuleBoundaries::user_input_layout(size_t position, const Value& value) const {
  const auto& inputs = layouts_[0].inputs;
  const auto named = keywords_[0].find(value.name());
  const auto* crossing = named != keywords_[0].end() ? &named->second
      : position < inputs.size()                     ? &inputs[position]
                                                     : nullptr;
  return crossing != nullptr && crossing->from
      ? replicated().with(mesh_dim_, crossing->from->normalized(value.tensor().dim()))
      : replicated();
}

void ModuleBoundaries::enter_model(const std::vector<Value*>& inputs, Node* first) {
  if (has_inputs_[0] == 0) {
    return;
  }
  for (auto* value : inputs) {
    auto* const crossed = cross_in(value, {0, 0}, first);
    const auto uses = value->uses();
    for (const auto& use : uses) {
      if (use.node->step() == nullptr) {
        use.node->set_operand(use.operand, crossed);
      }
    }
  }
}

Layout ModuleBoundaries::user_output_layout(size_t position, const Value& value) const {
  const auto& outputs = layouts_[0].outputs;
  const bool is_said = position < outputs.size() && outputs[position].to;
  if (!is_said) {
    return replicated();
  }
  return without_partial(*value.layout).with(mesh_dim_, outputs[position].to->normalized(value.tensor().dim()));
}

bool ModuleBoundaries::is_own(const Value* value, const Call& call) const {
  const auto found = buffers_.find(value);
  return constants_.contains(value) ||
      (found != buffers_.end() && found->second.starts_with(modules_.modules()[call.module].path + "."));
}

bool ModuleBoundaries::is_in(const Node& node, const Call& call) {
  const auto& around = modules_.around(node);
  return std::find(around.begin(), around.end(), call) != around.end();
}

Value* ModuleBoundaries::cross(
    Value* value,
    const Crossings& crossings,
    std::vector<const Value*>& order,
    Node* before) {
  const auto* source = redistributions_.source_of(value);
  auto found = std::find(order.begin(), order.end(), source);
  if (found == order.end()) {
    order.push_back(source);
    found = order.end() - 1;
  }
  const auto position = static_cast<size_t>(found - order.begin());
  return position < crossings.size() ? cross(value, crossings[position], before) : value;
}

Value* ModuleBoundaries::cross_in(Value* value, const Call& call, Node* before) {
  const auto& keywords = keywords_[call.module];
  const auto named = keywords.find(redistributions_.source_of(value)->name());
  return named != keywords.end() ? cross(value, named->second, before)
                                 : cross(value, layouts_[call.module].inputs, of_call(entered_, call.call), before);
}

Value* ModuleBoundaries::cross(Value* value, const nn::Crossing& crossing, Node* before) {
  if (!crossing.to) {
    return value;
  }
  const auto rank = value->tensor().dim();
  const auto& wanted = *crossing.to;
  // The plan's layout is for the main tensors; a mask with fewer dims is not one of them.
  if (wanted.is_shard() && (wanted.dim() >= rank || wanted.dim() < -rank)) {
    return value;
  }
  return redistributions_.in_layout(value, value->layout->with(mesh_dim_, wanted.normalized(rank)), before);
}

void ModuleBoundaries::enter(Node* node) {
  const auto& around = modules_.around(*node);
  for (const auto& call : around) {
    if (has_inputs_[call.module] == 0) {
      continue;
    }
    for (const auto& [argument, position, operand] : CallAnalysis::tensor_operands(*node)) {
      auto* value = node->operand(operand);
      const auto* source = redistributions_.source_of(value);
      const bool comes_from_outside = source->producer() == nullptr || !is_in(*source->producer(), call);
      if (comes_from_outside && !is_own(source, call)) {
        node->set_operand(operand, cross_in(value, call, node));
      }
    }
  }
}

void ModuleBoundaries::leave(Node* node) {
  const auto& around = modules_.around(*node);
  auto* const next = node->next();
  for (auto* output : node->outputs()) {
    if (output == nullptr || !output->is_tensor()) {
      continue;
    }
    // Innermost module first: its output is what the module around it continues with.
    auto* value = output;
    for (auto call = around.rbegin(); call != around.rend(); ++call) {
      if (has_outputs_[call->module] == 0) {
        continue;
      }
      std::vector<Value::Use> outside;
      for (const auto& use : value->uses()) {
        if (use.node->step() == nullptr && !is_in(*use.node, *call)) {
          outside.push_back(use);
        }
      }
      if (outside.empty()) {
        continue;
      }
      auto* const crossed = cross(value, layouts_[call->module].outputs, of_call(left_, call->call), next);
      for (const auto& use : outside) {
        use.node->set_operand(use.operand, crossed);
      }
      value = crossed;
    }
  }
}

} // namespace weft::graph
