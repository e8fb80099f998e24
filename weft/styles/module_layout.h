#pragma once

#include "weft/core/device_mesh.h"
#include "weft/styles/parallel_plan.h"

#include <c10/util/ArrayRef.h>

namespace weft::nn {

/// The properties of a module that a parallel plan needs, for modules of C++ and of Python.
enum class ModuleKind : uint8_t {
  Linear,
  TransposedLinear, // a weight of [inputs, outputs], as transformers' Conv1D has
  Embedding,
  Other
};

struct ParameterInfo {
  std::string name; // without the path of the module
  std::vector<int64_t> shape;
  const void* identity;    // equal for tied parameters
  bool is_settled = false; // by an earlier plan: it stays as it is unless this plan names it
};

struct ModuleInfo {
  std::string path;
  ModuleKind kind;
  std::vector<ParameterInfo> parameters; // without those of submodules
};

/// The layout that a parallel plan gives a module, along one mesh dim.
struct ModuleLayout {
  const ParallelPlan::Entry* entry = nullptr;       // nullptr: the plan does not name the module
  std::vector<std::optional<Placement>> parameters; // empty: the parameter stays as it is
  bool replicates_buffers = false;                  // otherwise its buffers stay plain
  /// The crossings of its inputs and outputs; also of a module that is tied to a named one.
  std::vector<Crossing> inputs;
  std::vector<Crossing> outputs;
};

/// The mesh dim that a parallel plan is for: the named one, else "tp", else the only one.
int64_t plan_mesh_dim(
    const DeviceMesh& mesh,
    const std::optional<std::string>& name,
    std::string_view where = kParallelizeModule);

/// The beginning of an error about a module: [parallelize_module] plan entry "layers.*.wq" for module "layers.0.wq":
std::string entry_text(
    const ParallelPlan::Entry& entry,
    const std::string& path,
    std::string_view where = kParallelizeModule);

/// Whether a style says how the parameters of a module are held, as those for inputs and outputs alone do not.
inline bool is_about_parameters(const Style& style) {
  return style.kind != StyleKind::Input && style.kind != StyleKind::Output && style.kind != StyleKind::InputOutput;
}

/// The layout of every module of a model. A pattern that matches no module names parameters, which it shards as stacks
/// of weights: `experts.up` of shape [experts, outputs, inputs] is S(1) if colwise, S(2) if rowwise. A module that the
/// parallel plan does not name is replicated; if the plan makes modules return plain tensors, such a module keeps plain
/// parameters and buffers. A tied parameter gets its placement from the entry that names one of its modules, and such a
/// module the boundary of the style that would give it. Raises for a style that a module cannot have, with the plan entry.
std::vector<ModuleLayout> lay_out(
    const ParallelPlan& plan,
    c10::ArrayRef<ModuleInfo> modules,
    const DeviceMesh& mesh,
    int64_t mesh_dim,
    std::string_view where = kParallelizeModule);

} // namespace weft::nn
