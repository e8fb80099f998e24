#include "weft/checkpoint/load_files.h"

#include "weft/checkpoint/still_working.h"
#include "weft/comm/collectives.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>

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
      at::has_internal_overlap(wanted.local) != at::MemOverlap::Yes, "[load] '", name,
      "' must have memory of its own for each element, but got strides ", wanted.local.strides(),
      ". Load into a clone of it.");
  TORCH_CHECK_VALUE(
      !wanted.spec || !wanted.spec->layout().has_partial(),
      "[load] ranks must hold values and not terms of them, but got '", name, "', ", *wanted.spec, ".");
}

ReadTarget target_of(const std::string& name, const StoredTensor& stored, const LocalTensor& wanted, bool is_sent_on) {
  ReadTarget target{.name = name, .stored = &stored, .wanted = {}, .local = wanted.local.detach()};
  if (!wanted.spec) {
    target.wanted = full_block(stored.sizes);
    return target;
  }
  const auto& mesh = wanted.spec->mesh();
  target.wanted = block_of(stored.sizes, wanted.spec->layout(), mesh.shape(), mesh.coordinate());
  for (const auto m : is_sent_on ? MeshDims() : replicated_dims(*wanted.spec)) {
    target.replicas *= mesh.size(m);
    target.replica = target.replica * mesh.size(m) + mesh.rank(m);
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

/// The first of the ranks that read plain tensors gives their values to the others.
void broadcast_plain(const std::map<std::string, LocalTensor>& tensors, const RankTexts& ranks) {
  const c10::NoGradGuard no_grad;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.spec && tensor.local.numel() > 0) {
      const auto local = tensor.local.detach();
      const auto values = local.cpu().contiguous();
      ranks.broadcast(values);
      local.copy_(values);
    }
  }
}

bool is_sent_to_this_rank(const LocalTensor& tensor) {
  const auto dims = replicated_dims(*tensor.spec);
  return std::any_of(dims.begin(), dims.end(), [&](int64_t m) { return tensor.spec->mesh().rank(m) != 0; });
}

/// Raises on all ranks if one has an error: its own on that rank, and one that names the rank on the others.
void raise_on_all(const RankTexts& ranks, const std::exception_ptr& own) {
  const auto text = own ? error_text_of("load", [&] { std::rethrow_exception(own); }) : std::string();
  const auto texts = ranks.all_gather(text);
  if (own) {
    std::rethrow_exception(own);
  }
  raise_first_error(texts);
}

std::exception_ptr error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void check_all(const StoredTensors& stored, const std::map<std::string, LocalTensor>& tensors) {
  std::vector<std::string> missing;
  for (const auto& [name, tensor] : tensors) {
    const auto unreadable = stored.unreadable.find(name);
    TORCH_CHECK_VALUE(
        unreadable == stored.unreadable.end(), "[load] '", name,
        "' must be stored with a dtype that torch has, but it is ", unreadable->second, ".");
    if (!stored.tensors.contains(name)) {
      missing.push_back(name);
    }
  }
  TORCH_CHECK_VALUE(
      missing.empty(), "[load] ", stored.folder, ": the tensors that are to be loaded must be in it, but it lacks ",
      joined_names(missing), ". Is it the checkpoint of another model?");
  for (const auto& [name, tensor] : tensors) {
    check_fits(stored.tensors.at(name), name, tensor);
  }
}

/// The plain tensors that a rank loads, as a text.
std::string plain_names(const std::map<std::string, LocalTensor>& tensors) {
  std::string text;
  for (const auto& [name, tensor] : tensors) {
    text += tensor.spec ? std::string() : c10::str(name, " ", tensor.local.scalar_type(), tensor.local.sizes(), "\n");
  }
  return text;
}

} // namespace

ReadReport load_files(
    const StoredTensors& stored,
    const std::map<std::string, LocalTensor>& tensors,
    const LoadOptions& options,
    const RankTexts& ranks) {
  bool sends_plain = false;
  if (options.broadcast) {
    raise_on_all(ranks, error_of([&] { check_all(stored, tensors); }));
    const auto names = ranks.all_gather(plain_names(tensors));
    sends_plain = std::all_of(names.begin(), names.end(), [&](const auto& other) { return other == names[0]; });
  } else {
    check_all(stored, tensors);
  }
  std::vector<ReadTarget> targets;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.spec && !tensor.spec->mesh().is_member()) {
      continue;
    }
    const bool is_sent =
        options.broadcast && (tensor.spec ? is_sent_to_this_rank(tensor) : sends_plain && ranks.rank() != 0);
    if (!is_sent) {
      targets.push_back(target_of(name, stored.tensors.at(name), tensor, /*is_sent_on=*/options.broadcast));
    }
  }
  ReadReport report;
  const auto read = [&] {
    report = read_tensors(stored, targets, {.where = "load", .verify = options.verify, .threads = options.threads});
  };
  if (!options.broadcast) {
    read();
    return report;
  }
  // The ranks that wait for values hear of an error before they begin to wait.
  StillWorking working(ranks);
  const auto error = error_of(read);
  working.wait_for_all();
  raise_on_all(ranks, error);
  broadcast_replicas(tensors);
  if (sends_plain) {
    broadcast_plain(tensors, ranks);
  }
  return report;
}

} // namespace weft
