#include "weft/graph/pt2/write_weights.h"

#include "weft/graph/pt2/mapped_file.h"
#include "weft/graph/pt2/write_types.h"

namespace weft::graph {

using nlohmann::json;

namespace {

/// A tensor of the program, and the record it is written to.
struct WrittenTensor {
  std::string name;
  at::Tensor tensor;
  bool is_parameter = false;
  bool is_constant = false; // not in the state dict
  bool requires_grad = false;
  c10::Device device = c10::kCPU;
};

/// The tensors in the order of the inputs. Tensors that no input uses come last, in the state dict.
std::vector<WrittenTensor> entries_of(const Program& program, bool can_make) {
  std::vector<WrittenTensor> entries;
  std::set<std::string> seen;
  std::set<const c10::StorageImpl*> parameters;
  for (const auto& input : program.inputs) {
    if (input.kind == InputKind::User || !seen.insert(input.target).second) {
      continue;
    }
    const auto found = program.tensors.find(input.target);
    TORCH_CHECK_VALUE(
        found != program.tensors.end(), "[write_pt2] the tensor ", input.target,
        ", an input of the program, is required, but the program has none of this name.");
    const auto& type = input.value->tensor();
    const bool is_parameter = input.kind == InputKind::Parameter;
    const bool is_constant = input.kind == InputKind::Constant || !input.is_persistent;
    entries.push_back({input.target, found->second, is_parameter, is_constant, type.requires_grad, type.device});
    if (is_parameter) {
      parameters.insert(found->second.storage().unsafeGetStorageImpl());
    }
  }
  for (const auto& [name, tensor] : program.tensors) {
    if (seen.count(name) == 0) {
      // Another name of a parameter.
      const bool is_parameter = parameters.count(tensor.storage().unsafeGetStorageImpl()) != 0;
      entries.push_back({name, tensor, is_parameter, false, tensor.requires_grad(), tensor.device()});
    }
  }
  for (const auto& entry : entries) {
    TORCH_CHECK_VALUE(
        entry.tensor.defined() && entry.tensor.layout() == c10::kStrided && (can_make || !entry.tensor.is_meta()),
        "[write_pt2] the tensor ", entry.name, " must be a strided one that has values.");
  }
  return entries;
}

/// The range of the storage from a tensor's first element to the element after its last.
struct Extent {
  int64_t begin;
  int64_t end;
};
Extent extent_in_storage(const at::Tensor& tensor) {
  if (tensor.numel() == 0) {
    return {tensor.storage_offset(), tensor.storage_offset()};
  }
  auto end = tensor.storage_offset() + 1;
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    end += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  return {tensor.storage_offset(), end};
}

bool is_same_view(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.strides() == b.strides() && a.storage_offset() == b.storage_offset() &&
      a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

/// The tensors of one record: all are views of the base's memory, which has no gaps, or all are equal to the base.
struct WrittenRecord {
  at::Tensor base;
  std::vector<const WrittenTensor*> members;

  bool takes(const at::Tensor& tensor) const {
    const auto own = extent_in_storage(base);
    const auto other = extent_in_storage(tensor);
    const bool is_inside = own.begin <= other.begin && other.end <= own.end && other.begin < other.end;
    const bool is_alike = base.is_conj() == tensor.is_conj() && base.is_neg() == tensor.is_neg();
    return is_same_view(base, tensor) || (base.is_non_overlapping_and_dense() && is_inside && is_alike);
  }
};

/// Views of the same memory share a record, so that they share memory again after reading.
std::vector<WrittenRecord> group(const std::vector<WrittenTensor>& entries) {
  std::vector<WrittenRecord> groups;
  std::map<std::tuple<const void*, c10::ScalarType, bool>, std::vector<size_t>> of_storage;
  for (const auto& entry : entries) {
    const auto& tensor = entry.tensor;
    auto& own = of_storage[{tensor.storage().unsafeGetStorageImpl(), tensor.scalar_type(), entry.is_constant}];
    const auto found = std::find_if(own.begin(), own.end(), [&](size_t i) {
      // The second of the two may be the larger one.
      return groups[i].takes(tensor) || WrittenRecord{tensor, {}}.takes(groups[i].base);
    });
    if (found == own.end()) {
      own.push_back(groups.size());
      groups.push_back({tensor, {&entry}});
    } else {
      auto& group = groups[*found];
      group.members.push_back(&entry);
      group.base = group.takes(tensor) ? group.base : tensor;
    }
  }
  return groups;
}

/// A contiguous copy. It is made slice by slice, so that few pages of a mapped file are in memory in addition to the
/// copy.
at::Tensor contiguous_copy(const at::Tensor& tensor) {
  constexpr int64_t kCopyBytes = int64_t{32} << 20;
  int64_t dim = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    dim = tensor.stride(d) > tensor.stride(dim) ? d : dim;
  }
  const auto step = tensor.dim() == 0 ? 0 : tensor.stride(dim) * tensor.element_size();
  if (step == 0 || step * tensor.size(dim) <= kCopyBytes) {
    return tensor.contiguous();
  }
  auto copy = at::empty(tensor.sizes(), tensor.options().requires_grad(false));
  const auto length = std::max<int64_t>(1, kCopyBytes / step);
  for (int64_t begin = 0; begin < tensor.size(dim); begin += length) {
    const auto slice = tensor.narrow(dim, begin, std::min(length, tensor.size(dim) - begin));
    copy.narrow(dim, begin, slice.size(dim)).copy_(slice);
    release_pages(slice);
  }
  return copy;
}

class WeightWriter {
 public:
  WeightWriter(const std::string& model, const WriteOptions& options, const WriteRecord& write)
      : model_(model), options_(options), write_(write) {}

  void add(const WrittenRecord& group) {
    const bool is_constant = group.members[0]->is_constant;
    const auto folder = std::string(is_constant ? "data/constants/" : "data/weights/");
    const auto path =
        is_constant ? "tensor_" + std::to_string(constants_count_++) : "weight_" + std::to_string(weights_count_++);
    const auto base = group.base.is_meta() ? options_.make_tensor(group.members[0]->name) : group.base;
    const bool is_dense = base.is_non_overlapping_and_dense();
    // A tensor whose memory already has the stored form is not copied.
    auto stored = base.resolve_conj().resolve_neg().cpu();
    stored = is_dense ? stored : contiguous_copy(stored);
    write_(folder + path, stored.const_data_ptr(), stored.nbytes());
    for (const auto* member : group.members) {
      const auto offset = member->tensor.storage_offset() - base.storage_offset();
      state(*member, path, is_dense ? member->tensor.strides() : stored.strides(), is_dense ? offset : 0);
    }
    for (const auto* member : group.members) {
      release_pages(member->tensor);
    }
    if (options_.on_progress) {
      options_.on_progress(bytes_ += static_cast<int64_t>(stored.nbytes()));
    }
  }

  void finish() {
    for (const auto& [folder, name, config] :
         {std::tuple("data/weights/", "_weights_config.json", &weights_),
          std::tuple("data/constants/", "_constants_config.json", &constants_)}) {
      const auto text = "{\"config\": " + config->dump() + "}";
      write_(folder + model_ + name, text.data(), text.size());
    }
  }

 private:
  void state(const WrittenTensor& entry, const std::string& path, at::IntArrayRef strides, int64_t offset) {
    TensorType type;
    type.dtype = entry.tensor.scalar_type();
    type.sizes.assign(entry.tensor.sizes().begin(), entry.tensor.sizes().end());
    type.strides.assign(strides.begin(), strides.end());
    type.device = entry.device;
    type.requires_grad = entry.requires_grad;
    auto meta = types_.tensor(type);
    meta["storage_offset"] = {{"as_int", offset}};
    (entry.is_constant ? constants_ : weights_)[entry.name] = {
        {"path_name", path}, {"is_param", entry.is_parameter}, {"use_pickle", false}, {"tensor_meta", std::move(meta)}};
  }

  std::string model_;
  const WriteOptions& options_;
  const WriteRecord& write_;
  int64_t bytes_ = 0;
  std::map<std::string, Symbol> no_symbols_;
  TypeWriter types_{no_symbols_};
  nlohmann::ordered_json weights_ = nlohmann::ordered_json::object();
  nlohmann::ordered_json constants_ = nlohmann::ordered_json::object();
  size_t weights_count_ = 0;
  size_t constants_count_ = 0;
};

} // namespace

void write_weights(
    const Program& program,
    const std::string& model,
    const WriteOptions& options,
    const WriteRecord& write) {
  const auto entries = entries_of(program, /*can_make=*/static_cast<bool>(options.make_tensor));
  WeightWriter writer(model, options, write);
  for (const auto& group : group(entries)) {
    writer.add(group);
  }
  writer.finish();
}

} // namespace weft::graph
