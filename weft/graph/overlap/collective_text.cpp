#include "weft/graph/overlap/collective_text.h"

#include "weft/core/dtype_text.h"

#include <c10/util/StringUtil.h>

namespace weft::graph {

namespace {

std::string name_of(const Value* value) {
  return value == nullptr ? "_" : "%" + value->name();
}

std::string name_of(const Node* node) {
  for (const auto* output : node->outputs()) {
    if (output != nullptr) {
      return name_of(output);
    }
  }
  return target_name(*node);
}

std::string names_of(const std::vector<Node*>& nodes) {
  std::string text = ":";
  for (const auto* node : nodes) {
    text += " " + name_of(node);
  }
  return text;
}

std::string arrangement_text(const Arrangement& arrangement) {
  constexpr const char* kKinds[] = {"joined", "stacked", "shard", "slice"};
  return c10::str(kKinds[static_cast<size_t>(arrangement.kind)], " ", arrangement.at);
}

template <class Form>
std::string group_of(const Form& form) {
  return c10::str(" over ", form.group, " of ", form.members);
}

template <class Form>
std::string place_of(const Form& form) {
  return c10::str(
      " along ", form.dim, form.size ? " of size " + form.size->to_string() : std::string(), group_of(form));
}

std::string gather_text(const Gather& gather) {
  if (!gather.refused.empty()) {
    return c10::str("gather ", name_of(gather.collective), ": ", gather.refused, "\n");
  }
  auto text = c10::str(
      "gather ", name_of(gather.shard), " -> ", name_of(gather.full), place_of(gather), names_of(gather.nodes));
  for (const auto& kept : gather.kept) {
    text += c10::str("; kept ", name_of(kept.value), " ", arrangement_text(kept.arrangement));
  }
  return text + (gather.viewed_as ? c10::str("; viewed as ", dtype_text(*gather.viewed_as)) : std::string()) + "\n";
}

std::string scatter_text(const Scatter& scatter) {
  if (!scatter.refused.empty()) {
    return c10::str("scatter ", name_of(scatter.collective), ": ", scatter.refused, "\n");
  }
  return c10::str(
      "scatter(", scatter.reduce_op, ") ", name_of(scatter.full), " -> ", name_of(scatter.shard), place_of(scatter),
      names_of(scatter.nodes), scatter.is_full_kept ? "; kept" : "",
      scatter.unwaited == nullptr ? "" : "; saved " + name_of(scatter.unwaited), "\n");
}

std::string reduction_text(const Reduction& reduction) {
  if (!reduction.refused.empty()) {
    return c10::str("reduction ", name_of(reduction.collective), ": ", reduction.refused, "\n");
  }
  return c10::str(
      "reduction(", reduction.reduce_op, ") ", name_of(reduction.input), " -> ", name_of(reduction.result),
      group_of(reduction), names_of(reduction.nodes),
      reduction.unwaited == nullptr ? "" : "; saved " + name_of(reduction.unwaited), "\n");
}

} // namespace

std::string to_string(const CollectiveForms& forms) {
  std::string text;
  for (const auto& gather : forms.gathers) {
    text += gather_text(gather);
  }
  for (const auto& scatter : forms.scatters) {
    text += scatter_text(scatter);
  }
  for (const auto& reduction : forms.reductions) {
    text += reduction_text(reduction);
  }
  return text;
}

} // namespace weft::graph
