#include "weft/rules/builders.h"
#include "weft/rules/registry.h"

#include <algorithm>

namespace weft {

namespace {

/// Every part has the dims of the whole but for the one that is split.
Rule into_parts(const OpCall& call, int64_t parts) {
  auto order = natural_order(call);
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  order[dim] = -1;
  auto rule = with_whole(rearranged(call, order), {dim});
  rule.outputs.resize(parts, Rule::Dims(rule.outputs[0]));
  return rule;
}

/// Of equal parts each may be cut. A rank that held nothing of them would split nothing into one.
Rule into_equal_parts(const OpCall& call, int64_t parts) {
  auto rule = rearranged(call, natural_order(call));
  const auto dim = call.wrapped_dim("dim", call.operand(0).dim());
  const auto inside = rule.inputs[0][dim][0];
  const auto part = rule.add_factor(parts);
  rule.sizes[inside] /= parts;
  rule.filled.push_back(inside);
  rule.whole.push_back(part);
  rule.inputs[0][dim] = {part, inside};
  rule.outputs.resize(parts, Rule::Dims(rule.outputs[0]));
  return rule;
}

int64_t split_size(const OpCall& call) {
  return call.operand(0).sizes[call.wrapped_dim("dim", call.operand(0).dim())];
}

/// How many parts of a size hold so many elements.
int64_t count_of(int64_t elements, int64_t size) {
  return (elements + size - 1) / size;
}

Rule split_rule(const OpCall& call) {
  if (call.schema().overload_name() == "sizes") {
    return into_parts(call, static_cast<int64_t>(call.integers("split_size").size()));
  }
  const auto size = split_size(call);
  const auto step = std::max<int64_t>(call.integer("split_size", 1), 1);
  const auto parts = std::max<int64_t>(count_of(size, step), 1);
  if (size != parts * step) {
    return into_parts(call, parts);
  }
  auto rule = into_equal_parts(call, parts);
  const auto inside = rule.inputs[0][call.wrapped_dim("dim", call.operand(0).dim())][1];
  rule.size_arguments.push_back({"split_size", {step}, {{inside}}});
  return rule;
}

Rule split_with_sizes_rule(const OpCall& call) {
  return into_parts(call, static_cast<int64_t>(call.integers("split_sizes").size()));
}

/// Parts as long as they must be for so many; there are fewer of them where that leaves nothing for the last.
std::optional<Rule> chunk_rule(const OpCall& call) {
  const auto size = split_size(call);
  const auto chunks = call.integer("chunks");
  if (chunks < 1) {
    return std::nullopt;
  }
  if (size % chunks == 0) {
    return size == 0 ? into_parts(call, chunks) : into_equal_parts(call, chunks);
  }
  return into_parts(call, count_of(size, count_of(size, chunks)));
}

/// Into so many parts, the first ones longer by one where they cannot be equal, or at these places.
std::optional<Rule> tensor_split_rule(const OpCall& call) {
  if (call.has("indices")) {
    return into_parts(call, static_cast<int64_t>(call.integers("indices").size()) + 1);
  }
  const auto sections = call.integer("sections");
  if (sections < 1) {
    return std::nullopt; // a tensor says it
  }
  const auto size = split_size(call);
  return size > 0 && size % sections == 0 ? into_equal_parts(call, sections) : into_parts(call, sections);
}

} // namespace

void add_splitting_rules(RuleRegistry& registry) {
  registry.add({"split", "split_copy", "unsafe_split"}, of_rank(1, split_rule));
  registry.add(
      {"split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes"}, of_rank(1, split_with_sizes_rule));
  registry.add({"chunk", "unsafe_chunk"}, of_rank(1, chunk_rule));
  registry.add({"tensor_split"}, of_rank(1, tensor_split_rule));
}

} // namespace weft
