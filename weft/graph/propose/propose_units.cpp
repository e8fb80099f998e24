#include "weft/graph/propose/propose_units.h"

#include "weft/graph/parallelize/module_patterns.h"
#include "weft/graph/parallelize/program_modules.h"

#include <algorithm>
#include <map>
#include <set>

namespace weft::graph {

namespace {

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

/// "layers.0" of "layers.0.attention.wq": up to the first number, if something is inside of it; empty if there is none.
std::string block_of(const std::string& path) {
  for (size_t begin = 0; begin < path.size();) {
    const auto end = path.find('.', begin);
    if (end == std::string::npos) {
      return {};
    }
    if (is_number(path.substr(begin, end - begin))) {
      return path.substr(0, end);
    }
    begin = end + 1;
  }
  return {};
}

/// The blocks in the order of the program, without those that have no other in their list.
std::vector<std::string> repeated_blocks(const std::vector<nn::ModuleInfo>& modules) {
  std::vector<std::string> blocks;
  std::map<std::string, int64_t> in_list; // by the path of the list
  const auto list_of = [](const std::string& block) { return block.substr(0, block.find_last_of('.') + 1); };
  for (const auto& module : modules) {
    const auto block = module.parameters.empty() ? std::string() : block_of(module.path);
    if (!block.empty() && std::find(blocks.begin(), blocks.end(), block) == blocks.end()) {
      blocks.push_back(block);
      ++in_list[list_of(block)];
    }
  }
  std::erase_if(blocks, [&](const std::string& block) { return in_list.at(list_of(block)) < 2; });
  return blocks;
}

} // namespace

void propose_units(ProposedPlan& proposed, const Program& program, const std::string& mesh_dim) {
  const ProgramModules modules(program);
  const auto blocks = repeated_blocks(modules.modules());
  const std::set<std::string> known(blocks.begin(), blocks.end());
  std::vector<std::string> paths = blocks; // a block whose own forward is never called is no module of the program
  for (const auto& module : modules.modules()) {
    paths.push_back(module.path);
  }
  std::map<std::string, int64_t> counts;
  std::vector<std::string> patterns;
  for (const auto& block : blocks) {
    const auto pattern = widened(block, paths, [&](const std::string& other) { return known.contains(other); });
    if (counts[pattern]++ == 0) {
      patterns.push_back(pattern);
    }
  }
  const auto over = "fully sharded over " + mesh_dim;
  for (const auto& pattern : patterns) {
    const auto reason = counts[pattern] == 1
        ? over + ": a block, gathered while another computes"
        : c10::str(over, ": each of ", counts[pattern], " blocks, gathered while ", "another computes");
    proposed.units.push_back({{.pattern = pattern, .mesh_dim = mesh_dim}, reason});
  }
  proposed.units.push_back(
      {{.pattern = "", .mesh_dim = mesh_dim},
       over + (blocks.empty() ? ": no repeated blocks were found" : ": what is in no block")});
}

} // namespace weft::graph
