#include "weft/graph/ir/sharding_text.h"

#include "weft/graph/ir/constant_text.h"

#include <algorithm>

namespace weft::graph {

namespace {

std::string numbers_text(c10::ArrayRef<int64_t> numbers) {
  std::string text;
  for (const auto number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return "[" + text + "] ";
}

std::vector<int64_t> parse_numbers(TextCursor& cursor) {
  cursor.expect("[");
  auto numbers = cursor.integers();
  cursor.expect("]");
  return numbers;
}

std::string lookup_text(const CallSharding::Lookup& lookup) {
  auto text =
      " lookup(" + std::to_string(lookup.operand) + ": " + numbers_text(lookup.size) + lookup.layout.to_string();
  if (lookup.masks_output) {
    text += ", masks output, table " + std::to_string(lookup.table) + " dim " + std::to_string(lookup.table_dim);
  }
  return text + ")";
}

CallSharding::Lookup parse_lookup(TextCursor& cursor) {
  CallSharding::Lookup lookup{};
  lookup.operand = static_cast<size_t>(cursor.integer());
  cursor.expect(":");
  cursor.expect("[");
  lookup.size = cursor.integer();
  cursor.expect("]");
  lookup.layout = Layout::parse(cursor);
  lookup.masks_output = cursor.accept(",");
  if (lookup.masks_output) {
    cursor.expect("masks output, table");
    lookup.table = static_cast<size_t>(cursor.integer());
    cursor.expect("dim");
    lookup.table_dim = cursor.integer();
  }
  cursor.expect(")");
  return lookup;
}

} // namespace

std::string step_text(const Step& step, const DeviceMesh* mesh) {
  std::string dims;
  for (const auto m : step.mesh_dims) {
    dims += (dims.empty() ? "" : ",") + (mesh == nullptr ? std::to_string(m) : mesh->name(m));
  }
  return dims + ": " + step.before.to_string() + " -> " + step.after.to_string();
}

Step parse_step(TextCursor& cursor, StepKind kind, const std::optional<DeviceMesh>& mesh) {
  Step step{.kind = kind, .mesh_dims = {}, .before = {}, .after = {}};
  while (!cursor.accept(":")) {
    if (!step.mesh_dims.empty()) {
      cursor.expect(",");
    }
    const auto word = cursor.word_ahead();
    const auto names = mesh ? mesh->names() : std::vector<std::string>();
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end()) {
      cursor.fail("a dim of the program's mesh");
    }
    step.mesh_dims.push_back(found - names.begin());
    cursor.skip(word.size());
  }
  step.before = Layout::parse(cursor);
  cursor.expect("->");
  step.after = Layout::parse(cursor);
  return step;
}

std::string sharding_text(const CallSharding& sharding, const c10::FunctionSchema& schema) {
  std::string text;
  for (const auto& [argument, sizes, layout] : sharding.size_arguments) {
    text += (text.empty() ? " sizes(" : ", ") + schema.arguments()[argument].name() + ": " + numbers_text(sizes) +
        layout.to_string();
  }
  text += text.empty() ? "" : ")";
  text += sharding.lookup ? lookup_text(*sharding.lookup) : "";
  text += sharding.is_fallback ? " fallback" : "";
  return sharding.reason.empty() ? text : text + " because " + quoted_text(sharding.reason);
}

CallSharding parse_sharding(TextCursor& cursor, const c10::FunctionSchema& schema) {
  CallSharding sharding;
  if (cursor.accept("sizes(")) {
    do {
      const auto argument = parse_argument_name(cursor, schema);
      cursor.expect(":");
      auto sizes = parse_numbers(cursor);
      sharding.size_arguments.push_back({argument, std::move(sizes), Layout::parse(cursor)});
    } while (cursor.accept(","));
    cursor.expect(")");
  }
  if (cursor.accept("lookup(")) {
    sharding.lookup = parse_lookup(cursor);
  }
  sharding.is_fallback = cursor.accept_word("fallback");
  if (cursor.accept_word("because")) {
    sharding.reason = parse_quoted(cursor);
  }
  return sharding;
}

size_t parse_argument_name(TextCursor& cursor, const c10::FunctionSchema& schema) {
  const auto name = cursor.word_ahead();
  const auto number = schema.argumentIndexWithName(name);
  if (!number) {
    cursor.fail("an argument of " + schema.name());
  }
  cursor.skip(name.size());
  return *number;
}

} // namespace weft::graph
