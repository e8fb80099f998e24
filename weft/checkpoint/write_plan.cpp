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
  WritePlanner(c10::ArrayRef<SavedTensor> tensors, int64_t rank, int64_t world_size, uint64_t max_bytes)
      : tensors_(tensors), rank_(rank), max_bytes_(max_bytes), bytes_(world_size, 0) {}

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
  using Positions = c10::SmallVector<Run, 4>;

  void add_plain(size_t t) {
    const auto& tensor = tensors_[t];
    const auto writer = *std::min_element(
        tensor.holders.begin(), tensor.holders.end(), [&](int64_t a, int64_t b) { return bytes_[a] < bytes_[b]; });
    const auto index = full_block(tensor.sizes);
    bytes_[writer] += static_cast<uint64_t>(block_numel(index)) * c10::elementSize(tensor.dtype);
    if (writer == rank_) {
      add_parts(t, index, positions_in(index));
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
          add_local(t, spec, coordinate, is_divided ? replicas.count() : 1, number);
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

  static Positions positions_in(const BlockIndex& index) {
    Positions positions;
    for (const auto length : block_shape(index)) {
      positions.push_back({0, length});
    }
    return positions;
  }

  void add_local(size_t t, const TensorSpec& spec, c10::IntArrayRef coordinate, int64_t replicas, int64_t number) {
    const auto index = block_of(spec.sizes(), spec.layout(), spec.mesh().shape(), coordinate);
    auto positions = positions_in(index);
    if (replicas > 1) {
      size_t dim = 0;
      while (dim + 1 < positions.size() && positions[dim].length < replicas) {
        ++dim;
      }
      positions[dim] = chunk(positions[dim].length, replicas, number);
    }
    add_parts(t, index, positions);
  }

  /// Adds a block of a local tensor, divided along its first dims where it is too large for a file.
  void add_parts(size_t t, const BlockIndex& local, const Positions& positions) {
    auto bytes = static_cast<uint64_t>(c10::elementSize(tensors_[t].dtype));
    for (const auto& range : positions) {
      bytes *= static_cast<uint64_t>(range.length);
    }
    if (bytes == 0) {
      return;
    }
    size_t dim = 0;
    while (dim < positions.size() && positions[dim].length == 1) {
      ++dim;
    }
    if (bytes <= max_bytes_ || dim == positions.size()) {
      WrittenPart part{.tensor = t, .index = {}, .positions = positions};
      for (size_t d = 0; d < positions.size(); ++d) {
        part.index.push_back(runs_at(local[d], positions[d]));
      }
      parts_.push_back(std::move(part));
      return;
    }
    const auto [begin, length] = positions[dim];
    const auto of_one = bytes / static_cast<uint64_t>(length);
    const auto step = static_cast<int64_t>(std::max<uint64_t>(1, max_bytes_ / of_one));
    for (int64_t from = 0; from < length; from += step) {
      auto next = positions;
      next[dim] = {begin + from, std::min(step, length - from)};
      add_parts(t, local, next);
    }
  }

  c10::ArrayRef<SavedTensor> tensors_;
  int64_t rank_;
  uint64_t max_bytes_;
  std::vector<uint64_t> bytes_; // that each rank writes so far
  std::vector<WrittenPart> parts_;
};

} // namespace

std::vector<WrittenPart> plan_writes(
    c10::ArrayRef<SavedTensor> tensors,
    int64_t rank,
    int64_t world_size,
    uint64_t max_bytes) {
  return WritePlanner(tensors, rank, world_size, max_bytes).run();
}

} // namespace weft
