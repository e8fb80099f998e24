#include "weft/styles/style.h"

#include "weft/core/text_cursor.h"
#include "weft/styles/style_json.h"

#include <c10/util/Exception.h>

#include <array>

namespace weft::nn {

namespace {

Style sharded_style(StyleKind kind, const ShardedStyleOptions& options, Placement default_output) {
  TORCH_CHECK_VALUE(
      !options.heads || *options.heads > 0, "[", to_string(kind), "] heads must be positive, but got ", *options.heads,
      ".");
  TORCH_CHECK_VALUE(options.parts > 0, "[", to_string(kind), "] parts must be positive, but got ", options.parts, ".");
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

Style colwise(const ShardedStyleOptions& options) {
  TORCH_CHECK_VALUE(options.parts > 0, "[colwise] parts must be positive, but got ", options.parts, ".");
  return sharded_style(StyleKind::Colwise, options, options.parts == 1 ? Shard(-1) : StridedShard(-1, options.parts));
}

Style rowwise(const ShardedStyleOptions& options) {
  return sharded_style(StyleKind::Rowwise, options, Replicate());
}

Style shard_parameter(int64_t dim, int64_t parts) {
  TORCH_CHECK_VALUE(parts > 0, "[shard] parts must be positive, but got ", parts, ".");
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
