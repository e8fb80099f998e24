#pragma once

#include "weft/core/device_mesh.h"
#include "weft/styles/parallel_plan.h"

#include <c10/util/ArrayRef.h>

namespace weft::nn {

/// What a plan has to know of a module, in whatever language that is written.
enum class ModuleKind : uint8_t { Linear, Embedding, Other };

struct ParameterInfo {
  std::string name; // in its module
  std::vector<int64_t> shape;
  const void* identity; // the same for parameters that are tied
};

struct ModuleInfo {
  std::string path;
  ModuleKind kind;
  std::vector<ParameterInfo> parameters; // the module's own
};

/// What a plan makes of a module, along one mesh dim.
struct ModuleLayout {
  const ParallelPlan::Entry* entry = nullptr;       // none: the plan does not name the module
  std::vector<std::optional<Placement>> parameters; // none: the parameter stays a plain tensor
  /// What happens to its inputs and outputs.
  std::vector<Crossing> inputs;
  std::vector<Crossing> outputs;
};

/// The mesh dim that a plan is for: the one named, else "tp", else the only one.
int64_t plan_mesh_dim(
    const DeviceMesh& mesh,
    const std::optional<std::string>& name,
    std::string_view where = kParallelizeModule);

/// What leads an error about a module: [parallelize_module] plan entry "layers.*.wq" for module "layers.0.wq":
std::string entry_text(
    const ParallelPlan::Entry& entry,
    const std::string& path,
    std::string_view where = kParallelizeModule);

/// Lays out every module of a model. A module that the plan does not name is replicated; where the plan gives out plain
/// tensors, it works on these and stays as it is. A tied parameter lies where the entry that names one of its modules puts
/// it. Raises for a style that a module cannot have, with the plan's entry.
std::vector<ModuleLayout> lay_out(
    const ParallelPlan& plan,
    c10::ArrayRef<ModuleInfo> modules,
    const DeviceMesh& mesh,
    int64_t mesh_dim,
    std::string_view where = kParallelizeModule);

} // namespace weft::nn
