#include "weft/checkpoint/load_files.h"

#include "weft/comm/collectives.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <c10/util/irange.h>

#include <algorithm>

namespace weft {

namespace {

/// "'a', 'b', and 3 more"
std::string joined_names(const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  }
  return names.size() > kShown ? c10::str(text, ", and ", names.size() - kShown, " more") : text;
}

/// The mesh dims along which ranks hold the same values.
MeshDims replicated_dims(const TensorSpec& spec) {
  MeshDims dims;
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    if (!spec.layout()[m].is_shard() && spec.mesh().size(m) > 1) {
      dims.push_back(m);
    }
  }
  return dims;
}

void check_fits(const StoredTensor& stored, const std::string& name, const LocalTensor& wanted) {
  const auto sizes = wanted.spec ? wanted.spec->sizes() : wanted.local.sizes();
  TORCH_CHECK_VALUE(
      sizes == c10::IntArrayRef(stored.sizes), "[load] '", name, "' must have the shape ",
      c10::IntArrayRef(stored.sizes), " that it was saved with, but got ", sizes,
      ". Is it the checkpoint of another model?");
  const auto dtype = wanted.local.scalar_type();
  TORCH_CHECK_TYPE(
      dtype == stored.dtype || c10::canCast(stored.dtype, dtype), "[load] '", name, "' must have a dtype that holds ",
      stored.dtype, ", as which it was saved, but got ", dtype, ".");
  TORCH_CHECK_VALUE(
      !wanted.spec || !wanted.spec->layout().has_partial(),
      "[load] ranks must hold values and not terms of them, but got '", name, "', ", *wanted.spec, ".");
}

ReadTarget target_of(const std::string& name, const StoredTensor& stored, const LocalTensor& wanted) {
  ReadTarget target{.name = name, .stored = &stored, .wanted = {}, .local = wanted.local.detach()};
  if (!wanted.spec) {
    target.wanted = whole_block(stored.sizes);
    return target;
  }
  const auto& mesh = wanted.spec->mesh();
  target.wanted = block_of(stored.sizes, wanted.spec->layout(), mesh.shape(), mesh.coordinate());
  target.sharers = mesh.size();
  for (const auto c : c10::irange(mesh.ndim())) {
    target.sharer = target.sharer * mesh.size(c) + mesh.rank(c);
  }
  return target;
}

/// Gives the values of the first of the ranks that hold the same to the others.
void broadcast_replicas(const std::map<std::string, LocalTensor>& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.spec || !tensor.spec->mesh().is_member()) {
      continue;
    }
    const auto dims = replicated_dims(*tensor.spec);
    if (!dims.empty() && tensor.local.numel() > 0) {
      const c10::NoGradGuard no_grad;
      const auto local = tensor.local.detach();
      const auto values = broadcast(local.contiguous(), tensor.spec->mesh(), dims, /*root=*/0).wait();
      local.copy_(values);
    }
  }
}

} // namespace

ReadReport load_files(
    const StoredTensors& stored,
    const std::map<std::string, LocalTensor>& tensors,
    const LoadOptions& options) {
  std::vector<std::string> missing;
  for (const auto& [name, tensor] : tensors) {
    if (!stored.tensors.contains(name)) {
      missing.push_back(name);
    }
  }
  TORCH_CHECK_VALUE(
      missing.empty(), "[load] ", stored.folder, ": the tensors that are to be loaded must be in it, but it lacks ",
      joined_names(missing), ". Is it the checkpoint of another model?");
  std::vector<ReadTarget> targets;
  for (const auto& [name, tensor] : tensors) {
    const auto& found = stored.tensors.at(name);
    check_fits(found, name, tensor);
    if (tensor.spec && !tensor.spec->mesh().is_member()) {
      continue;
    }
    bool is_sent = false;
    for (const auto m : options.broadcast&& tensor.spec ? replicated_dims(*tensor.spec) : MeshDims()) {
      is_sent = is_sent || tensor.spec->mesh().rank(m) != 0;
    }
    if (!is_sent) {
      targets.push_back(target_of(name, found, tensor));
    }
  }
  const auto report =
      read_tensors(stored, targets, {.where = "load", .verify = options.verify, .threads = options.threads});
  if (options.broadcast) {
    broadcast_replicas(tensors);
  }
  return report;
}

} // namespace weft
