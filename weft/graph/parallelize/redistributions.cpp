#include "weft/graph/parallelize/redistributions.h"

namespace weft::graph {

Value* Redistributions::in_layout(Value* value, const Layout& layout, Node* before) {
  if (*value->layout == layout) {
    return value;
  }
  auto& copies = copies_[value];
  for (auto* copy : copies) {
    if (*copy->layout == layout) {
      return copy;
    }
  }
  const auto source = analysis_.spec(value);
  auto* current = value;
  for (const auto& step : plan_for(source, source->with(layout)).steps) {
    auto type = current->tensor();
    type.strides = contiguous_strides(type.sizes);
    auto* node = graph_.insert(before, step, {Argument::operand(0)}, {current}, {.types = {std::move(type)}});
    node->origin = before->origin;
    node->output()->layout = step->after;
    memory_.add_copy(node->output(), current);
    sources_[node->output()] = value;
    copies.push_back(node->output());
    current = node->output();
  }
  // A change of the notation alone needs no step.
  if (current == value) {
    value->layout = layout;
  }
  return current;
}

const Value* Redistributions::source_of(const Value* value) const {
  const auto* source = sources_.get(value);
  return source == nullptr ? value : source;
}

void Redistributions::forget_copies_of(const Value* value) {
  for (const auto* each : memory_.values_sharing(value)) {
    copies_[each].clear();
  }
}

const Redistributions::KnownPlan& Redistributions::plan_for(const SpecPtr& source, const SpecPtr& target) {
  const auto [found, is_new] = plans_.try_emplace({source.get(), target.get()});
  if (is_new) {
    auto found_plan = plan(source, target);
    std::vector<SharedStep> steps(found_plan.steps.begin(), found_plan.steps.end());
    found->second = {std::move(found_plan), std::move(steps)};
  }
  return found->second;
}

} // namespace weft::graph
