#include "weft/styles/style.h"

#include "weft/core/text_cursor.h"
#include "weft/styles/style_json.h"

#include <c10/util/Exception.h>

#include <array>
#include <numeric>

namespace weft::nn {

namespace {

void check_parts(std::string_view where, const Parts& parts) {
  TORCH_CHECK_VALUE(parts.count() > 0, "[", where, "] parts must be positive, but got ", parts.count(), ".");
}

Style sharded_style(StyleKind kind, const ShardedStyleOptions& options, Placement default_output) {
  TORCH_CHECK_VALUE(
      !options.heads || *options.heads > 0, "[", to_string(kind), "] heads must be positive, but got ", *options.heads,
      ".");
  check_parts(to_string(kind), options.parts);
  TORCH_CHECK_VALUE(
      options.parts.sizes().empty() || !options.heads, "[", to_string(kind),
      "] parts of different sizes are numbers of heads, so that heads must not be given too, but got heads ",
      *options.heads, ".");
  Style style;
  style.kind = kind;
  style.inputs = {{.from = options.input}};
  style.outputs = {{.to = options.output.value_or(default_output)}};
  style.local_outputs = options.local_output;
  style.heads = options.heads;
  style.parts = options.parts;
  return style;
}

} // namespace

Crossing Crossing::parse(std::string_view text) {
  TextCursor cursor("Crossing::parse", text);
  Crossing result;
  if (!cursor.accept("->")) {
    result.from = Placement::parse(cursor);
    if (cursor.at_end()) {
      return result;
    }
    cursor.expect("->");
  }
  result.to = Placement::parse(cursor);
  cursor.expect_end();
  return result;
}

std::string Crossing::to_string() const {
  std::string text = from ? from->to_string() : "";
  if (to) {
    text += (from ? " -> " : "-> ") + to->to_string();
  }
  return text;
}

std::string_view to_string(StyleKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {"colwise", "rowwise", "shard",        "sequence",
                                                      "input",   "output",  "input_output", "replicate"};
  return kNames[static_cast<size_t>(kind)];
}

std::string Style::to_string() const {
  return to_json(*this).dump();
}

Parts::Parts(std::vector<int64_t> sizes) : count_(static_cast<int64_t>(sizes.size())), sizes_(std::move(sizes)) {
  if (!sizes_.empty() && !shard(0).has_unequal_blocks()) {
    sizes_.clear();
  }
}

int64_t Parts::units() const {
  return sizes_.empty() ? count_ : std::accumulate(sizes_.begin(), sizes_.end(), int64_t{0});
}

Style colwise(const ShardedStyleOptions& options) {
  check_parts("colwise", options.parts);
  return sharded_style(StyleKind::Colwise, options, options.parts.shard(-1));
}

Style rowwise(const ShardedStyleOptions& options) {
  return sharded_style(StyleKind::Rowwise, options, Replicate());
}

Style shard_parameter(int64_t dim, const Parts& parts) {
  check_parts("shard", parts);
  return {.kind = StyleKind::Shard, .parts = parts, .dim = dim};
}

Style sequence(int64_t dim, bool local_output) {
  const auto shard = Shard(dim);
  return {
      .kind = StyleKind::Sequence,
      .inputs = {{.from = shard, .to = shard}},
      .outputs = {{.from = shard, .to = shard}},
      .local_outputs = local_output};
}

Style prepare_input(std::vector<Crossing> inputs, bool local_inputs) {
  return {.kind = StyleKind::Input, .inputs = std::move(inputs), .local_inputs = local_inputs};
}

Style prepare_output(std::vector<Crossing> outputs, bool local_outputs) {
  return {.kind = StyleKind::Output, .outputs = std::move(outputs), .local_outputs = local_outputs};
}

Style prepare_input_output(std::vector<Crossing> inputs, std::vector<Crossing> outputs) {
  return {.kind = StyleKind::InputOutput, .inputs = std::move(inputs), .outputs = std::move(outputs)};
}

Style replicate() {
  return {};
}

} // namespace weft::nn
