#include "weft/checkpoint/write_plan.h"

#include <algorithm>

namespace weft {

namespace {

/// The ranks of a mesh by what they hold: those that differ only along the mesh dims that do not shard hold the same.
class Replicas {
 public:
  explicit Replicas(const TensorSpec& spec) : mesh_(spec.mesh()) {
    for (int64_t m = 0; m < mesh_.ndim(); ++m) {
      if (!spec.layout()[m].is_shard()) {
        dims_.push_back(m);
        count_ *= mesh_.size(m);
      }
    }
  }

  int64_t count() const {
    return count_;
  }
  /// Which replica the rank at this coordinate is.
  int64_t number_of(c10::IntArrayRef coordinate) const {
    int64_t number = 0;
    for (const auto m : dims_) {
      number = number * mesh_.size(m) + coordinate[m];
    }
    return number;
  }

 private:
  const DeviceMesh& mesh_;
  MeshDims dims_;
  int64_t count_ = 1;
};

uint64_t largest_local_bytes(const TensorSpec& spec) {
  uint64_t bytes = c10::elementSize(spec.dtype());
  for (const auto size : largest_local_shape(spec.sizes(), spec.layout(), spec.mesh().shape())) {
    bytes *= static_cast<uint64_t>(size);
  }
  return bytes;
}

/// The indices at the positions `range` of runs.
Runs runs_at(const Runs& runs, Run range) {
  Runs result;
  int64_t position = 0;
  for (const auto& run : runs) {
    const auto from = std::max(position, range.begin);
    const auto to = std::min(position + run.length, range.begin + range.length);
    if (from < to) {
      result.push_back({run.begin + from - position, to - from});
    }
    position += run.length;
  }
  return result;
}

class WritePlanner {
 public:
  WritePlanner(c10::ArrayRef<SavedTensor> tensors, int64_t rank, int64_t world_size)
      : tensors_(tensors), rank_(rank), bytes_(world_size, 0) {}

  std::vector<WrittenPart> run() {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (tensors_[t].spec) {
        add_distributed(t, *tensors_[t].spec);
      } else {
        add_plain(t);
      }
    }
    return std::move(parts_);
  }

 private:
  void add_plain(size_t t) {
    const auto& tensor = tensors_[t];
    const auto writer = *std::min_element(
        tensor.holders.begin(), tensor.holders.end(), [&](int64_t a, int64_t b) { return bytes_[a] < bytes_[b]; });
    auto index = whole_block(tensor.sizes);
    const auto numel = block_numel(index);
    bytes_[writer] += static_cast<uint64_t>(numel) * c10::elementSize(tensor.dtype);
    if (writer == rank_ && numel > 0) {
      parts_.push_back({.tensor = t, .index = std::move(index)});
    }
  }

  void add_distributed(size_t t, const TensorSpec& spec) {
    const auto& mesh = spec.mesh();
    const Replicas replicas(spec);
    const auto bytes = largest_local_bytes(spec);
    const bool is_divided = replicas.count() > 1 && bytes >= kDividedBytes;
    const auto writer = is_divided ? -1 : least_loaded(mesh, replicas);
    for (int64_t i = 0; i < mesh.size(); ++i) {
      const auto coordinate = coordinate_at(i, mesh.shape());
      const auto number = replicas.number_of(coordinate);
      const auto rank = mesh.ranks()[i];
      if (is_divided || number == writer) {
        bytes_[rank] += is_divided ? bytes / static_cast<uint64_t>(replicas.count()) : bytes;
        if (rank == rank_) {
          add_part(t, spec, coordinate, is_divided ? replicas.count() : 1, number);
        }
      }
    }
  }

  /// The replica whose ranks have the least to write.
  int64_t least_loaded(const DeviceMesh& mesh, const Replicas& replicas) const {
    std::vector<uint64_t> loads(replicas.count(), 0);
    for (int64_t i = 0; replicas.count() > 1 && i < mesh.size(); ++i) {
      auto& load = loads[replicas.number_of(coordinate_at(i, mesh.shape()))];
      load = std::max(load, bytes_[mesh.ranks()[i]]);
    }
    return std::min_element(loads.begin(), loads.end()) - loads.begin();
  }

  void add_part(size_t t, const TensorSpec& spec, c10::IntArrayRef coordinate, int64_t replicas, int64_t number) {
    WrittenPart part{.tensor = t, .index = block_of(spec.sizes(), spec.layout(), spec.mesh().shape(), coordinate)};
    const auto shape = block_shape(part.index);
    if (replicas > 1) {
      part.dim = 0;
      while (part.dim + 1 < static_cast<int64_t>(shape.size()) && shape[part.dim] < replicas) {
        ++part.dim;
      }
      part.range = chunk(shape[part.dim], replicas, number);
      part.index[part.dim] = runs_at(part.index[part.dim], part.range);
    }
    if (block_numel(part.index) > 0) {
      parts_.push_back(std::move(part));
    }
  }

  c10::ArrayRef<SavedTensor> tensors_;
  int64_t rank_;
  std::vector<uint64_t> bytes_; // that each rank writes so far
  std::vector<WrittenPart> parts_;
};

} // namespace

std::vector<WrittenPart> plan_writes(c10::ArrayRef<SavedTensor> tensors, int64_t rank, int64_t world_size) {
  return WritePlanner(tensors, rank, world_size).run();
}

} // namespace weft
