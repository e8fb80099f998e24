#include "weft/checkpoint/state/save.h"

#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/state/value_json.h"
#include "weft/comm/world/current_world.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace weft {

namespace {

LocalTensor local_tensor(const char* where, const std::string& name, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(
      tensor.defined() && !tensor.is_meta(), "[", where, "] '", name, "' must have values, but it is ",
      tensor.defined() ? "on meta. Materialize it first." : "undefined.");
  if (!is_dtensor(tensor)) {
    TORCH_CHECK_TYPE(
        tensor.layout() == at::kStrided && !tensor.is_nested() && !tensor.is_quantized() && tensor.has_storage(), "[",
        where, "] '", name, "' must be a dense tensor, but got one that is ",
        tensor.is_nested()          ? "nested"
            : tensor.is_quantized() ? "quantized"
                                    : c10::str("of layout ", tensor.layout()),
        ".");
    return {tensor.detach(), nullptr};
  }
  auto& impl = checked_values(where, tensor);
  return {impl.local(), impl.spec()};
}

LocalTensor loaded_tensor(const std::string& name, const at::Tensor& tensor) {
  const auto* impl = as_dtensor(tensor);
  TORCH_CHECK_VALUE(
      impl == nullptr || !impl->is_copy_of_base(), "[load] '", name,
      "' must have memory of its own, but it is a copied view of another tensor, which would not get the values. Load "
      "the "
      "other tensor.");
  return local_tensor("load", name, tensor);
}

at::Tensor tensor_in(const at::Tensor& tensor) {
  return tensor;
}
at::Tensor tensor_in(const c10::IValue& value) {
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

/// The world of the first distributed tensor, else that of this thread.
template <class Tensors>
c10::intrusive_ptr<Communicator> world_of(const Tensors& tensors) {
  for (const auto& [name, value] : tensors) {
    const auto tensor = tensor_in(value);
    if (tensor.defined() && is_dtensor(tensor)) {
      return c10::intrusive_ptr<Communicator>::reclaim_copy(&Communicator::of(mesh_of(tensor)));
    }
  }
  return current_world();
}

} // namespace

RankTexts texts_of_world(const c10::intrusive_ptr<Communicator>& world, const std::string& name) {
  return RankTexts(world->size() == 1 ? DeviceMesh() : DeviceMesh(world, c10::kCPU, {world->size()}, {name}));
}

LocalState local_state(const State& state) {
  LocalState local;
  local.error = error_text_of("save", [&] {
    for (const auto& [name, value] : state) {
      if (value.isTensor()) {
        local.tensors.emplace(name, local_tensor("save", name, value.toTensor()));
      } else {
        local.values.emplace(name, value_json(value, name));
      }
    }
  });
  return local;
}

void save(const State& state, const std::string& folder, const SaveOptions& options) {
  save_files(local_state(state), folder, texts_of_world(world_of(state), "save"), options);
}

ReadReport load_tensors(
    const StoredTensors& stored,
    const std::map<std::string, at::Tensor>& tensors,
    const LoadOptions& options) {
  std::map<std::string, LocalTensor> locals;
  for (const auto& [name, tensor] : tensors) {
    locals.emplace(name, loaded_tensor(name, tensor));
  }
  const auto ranks = options.broadcast ? texts_of_world(world_of(tensors), "load") : RankTexts(DeviceMesh());
  const auto report = load_files(stored, locals, options, ranks);
  for (const auto& [name, tensor] : tensors) {
    if (const auto* impl = as_dtensor(tensor)) {
      impl->count_write();
    }
    if (!tensor.is_inference()) {
      tensor.unsafeGetTensorImpl()->bump_version(); // autograd notices that a saved tensor has changed
    }
  }
  return report;
}

ReadReport load(State& state, const std::string& folder, const LoadOptions& options) {
  const auto manifest = load_manifest(folder, "load");
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, value] : state) {
    if (value.isTensor()) {
      tensors.emplace(name, value.toTensor());
    } else {
      TORCH_CHECK_VALUE(
          manifest.stored.values.contains(name), "[load] ", folder, ": the value '", name,
          "' must be in it, but it is not. Is it the checkpoint of another program?");
    }
  }
  const auto report = load_tensors(manifest.stored, tensors, options);
  for (auto& [name, value] : state) {
    if (!value.isTensor()) {
      value = parse_value(manifest.stored.values.at(name), name);
    }
  }
  return report;
}

std::unique_ptr<AsyncSaver> make_async_saver(const std::string& name) {
  return std::make_unique<AsyncSaver>(texts_of_world(current_world(), name));
}

void save(AsyncSaver& saver, const State& state, const std::string& folder, const SaveOptions& options) {
  saver.save(local_state(state), folder, options);
}

} // namespace weft
