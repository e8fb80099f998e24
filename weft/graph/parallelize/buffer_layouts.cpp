#include "weft/graph/parallelize/buffer_layouts.h"

#include "weft/core/layout_algebra.h"
#include "weft/graph/analysis/memory_sharing.h"
#include "weft/graph/analysis/memory_writes.h"

#include <unordered_set>

namespace weft::graph {

namespace {

struct Group {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
};

/// Replaces numbers: "layers.#.keys" for "layers.3.keys".
std::string without_numbers(const std::string& name) {
  std::string pattern;
  for (const auto letter : name) {
    if (std::isdigit(static_cast<unsigned char>(letter)) == 0) {
      pattern += letter;
    } else if (pattern.empty() || pattern.back() != '#') {
      pattern += '#';
    }
  }
  return pattern;
}

/// Buffers that operators or mutations write to, except for those of no dims, which cannot be sharded.
std::vector<Group> written_buffers(const Program& program) {
  const MemoryWrites writes(*program.graph);
  std::unordered_set<std::string> mutated;
  for (const auto& output : program.outputs) {
    if (output.kind == OutputKind::BufferMutation) {
      mutated.insert(output.target);
    }
  }
  std::map<std::pair<std::string, std::vector<int64_t>>, std::vector<std::string>> groups;
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::Buffer || input.value == nullptr || input.value->tensor().dim() == 0 ||
        (mutated.count(input.target) == 0 && !writes.is_written(input.value))) {
      continue;
    }
    std::vector<int64_t> sizes;
    for (const auto& size : input.value->tensor().sizes) {
      sizes.push_back(size.number());
    }
    groups[{without_numbers(input.target), sizes}].push_back(input.target);
  }
  std::vector<Group> result;
  for (const auto& [key, names] : groups) {
    result.push_back({names, key.second});
  }
  return result;
}

} // namespace

BufferLayouts choose_buffer_layouts(
    const Program& program,
    const DeviceMesh& mesh,
    int64_t mesh_dim,
    const std::function<double(const BufferLayouts&)>& cost) {
  BufferLayouts best;
  const auto groups = written_buffers(program);
  if (groups.empty() || mesh.size(mesh_dim) == 1) {
    return best;
  }
  auto least = cost(best);
  for (const auto& group : groups) {
    auto best_of_group = best;
    for (size_t d = 0; d < group.sizes.size() && least > 0; ++d) {
      if (group.sizes[d] == 0 || group.sizes[d] % mesh.size(mesh_dim) != 0) {
        continue;
      }
      const auto layout = replicated(mesh).with(mesh_dim, Shard(static_cast<int64_t>(d)));
      auto layouts = best;
      for (const auto& name : group.names) {
        layouts.insert_or_assign(name, layout);
      }
      const auto found = cost(layouts);
      if (found < least) {
        least = found;
        best_of_group = layouts;
      }
    }
    best = best_of_group;
  }
  return best;
}

} // namespace weft::graph
