#include "weft/nn/distribute_module.h"

#include "weft/nn/placing.h"

namespace weft::nn {

void distribute_module(
    torch::nn::Module& module,
    const DeviceMesh& mesh,
    const PartitionFn& partition_fn,
    const MeshFn& input_fn,
    const MeshFn& output_fn,
    const DistributeOptions& options,
    bool replicate_plain) {
  auto* boundaries = dynamic_cast<Boundaries*>(&module);
  TORCH_CHECK_VALUE(
      boundaries != nullptr || (!input_fn && !output_fn),
      "[distribute_module] a module with an input or output function must be declared Parallel, but ", module.name(),
      " is not. Write weft::nn::Parallel<Model> model(...).");
  Placing placing(mesh, options);
  for (const auto& item : module.named_modules()) {
    if (partition_fn) {
      partition_fn(item.key(), *item.value(), mesh);
    }
    placing.replicate_what_is_plain(*item.value());
  }
  if (input_fn) {
    boundaries->add_input_fn([=](std::vector<at::Tensor> values) { return input_fn(std::move(values), mesh); });
  }
  if (output_fn) {
    boundaries->add_output_fn([=](std::vector<at::Tensor> values) { return output_fn(std::move(values), mesh); });
  }
  set_replicates_plain(module, replicate_plain);
}

} // namespace weft::nn
