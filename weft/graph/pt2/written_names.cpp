#include "weft/graph/pt2/written_names.h"

namespace weft::graph {

namespace {

// Words that cannot be names of variables in Python.
const std::unordered_set<std::string>& keywords() {
  static const std::unordered_set<std::string> all = {
      "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
      "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
      "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
      "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};
  return all;
}

std::string identifier(const std::string& name) {
  std::string result = name.empty() ? "value" : name;
  for (auto& letter : result) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
    letter = is_plain ? letter : '_';
  }
  if (std::isdigit(static_cast<unsigned char>(result[0])) != 0) {
    result = "_" + result;
  }
  return keywords().count(result) != 0 ? result + "_" : result;
}

} // namespace

WrittenNames::WrittenNames(const Program& program) {
  // Names the values first; a node with several outputs, or none, takes a name that is left.
  for (const auto* input : program.graph->inputs()) {
    values_.emplace(input, fresh(input->name()));
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    for (const auto* output : node->outputs()) {
      if (output != nullptr) {
        values_.emplace(output, fresh(output->name()));
      }
    }
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    const bool is_single = node->outputs().size() == 1 && node->output() != nullptr &&
        node->output_lists().size() == 1 && node->output_lists()[0] == Node::kSingle;
    const auto full = node->op() != nullptr ? node->op()->schema().name() : target_name(*node);
    nodes_.emplace(node, is_single ? of(node->output()) : fresh(full.substr(full.find_last_of(":.") + 1)));
  }
}

std::string WrittenNames::fresh(const std::string& wanted) {
  const auto base = identifier(wanted);
  if (taken_.insert(base).second) {
    return base;
  }
  auto& suffix = next_suffix_[base];
  while (true) {
    auto name = base + "_" + std::to_string(++suffix);
    if (taken_.insert(name).second) {
      return name;
    }
  }
}

} // namespace weft::graph
