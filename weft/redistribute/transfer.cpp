#include "weft/redistribute/transfer.h"

namespace weft {

namespace {

using Region = c10::SmallVector<Runs, 4>;
using Coordinate = c10::SmallVector<int64_t, kMaxMeshDims>;

/// The members of one group: the ranks that differ from one rank only along some mesh dims.
class Members {
 public:
  Members(const MeshDims& mesh_dims, c10::IntArrayRef mesh_shape, c10::IntArrayRef coordinate)
      : mesh_dims_(mesh_dims), mesh_shape_(mesh_shape), coordinate_(coordinate.begin(), coordinate.end()) {
    for (const auto m : mesh_dims_) {
      count_ *= mesh_shape_[m];
    }
  }

  int64_t count() const {
    return count_;
  }

  Coordinate coordinate(int64_t member) const {
    auto result = coordinate_;
    for (auto i = static_cast<int64_t>(mesh_dims_.size()) - 1; i >= 0; --i) {
      result[mesh_dims_[i]] = member % mesh_shape_[mesh_dims_[i]];
      member /= mesh_shape_[mesh_dims_[i]];
    }
    return result;
  }

 private:
  const MeshDims& mesh_dims_;
  c10::IntArrayRef mesh_shape_;
  Coordinate coordinate_;
  int64_t count_ = 1;
};

Region region(c10::IntArrayRef sizes, const Layout& layout, c10::IntArrayRef mesh_shape, c10::IntArrayRef coordinate) {
  Region result;
  for (size_t d = 0; d < sizes.size(); ++d) {
    result.push_back(local_runs(sizes[d], static_cast<int64_t>(d), layout, mesh_shape, coordinate));
  }
  return result;
}

/// The intersection of two regions: as positions in the sender's tensor, in the message, and in the receiver's tensor.
struct Message {
  Box sent;
  Box received;
};

Message message(const Region& held, const Region& wanted) {
  Message result;
  for (size_t d = 0; d < held.size(); ++d) {
    c10::SmallVector<Intersection, 1> sent;
    c10::SmallVector<Intersection, 1> received;
    int64_t position = 0;
    for (const auto& common : intersect(held[d], wanted[d])) {
      sent.push_back({common.held_begin, position, common.length});
      received.push_back({position, common.wanted_begin, common.length});
      position += common.length;
    }
    result.sent.dims.push_back(std::move(sent));
    result.received.dims.push_back(std::move(received));
  }
  return result;
}

/// The mesh dims of the group along which all members hold the same values.
MeshDims replicated_dims(const Step& step) {
  MeshDims result;
  for (const auto m : step.mesh_dims) {
    if (!step.before[m].is_shard()) {
      result.push_back(m);
    }
  }
  return result;
}

/// Whether `holder` sends its values to `receiver`, of all members that hold the same values: the receiver itself if it
/// is one of them, else one that depends on the receiver, so that the replicas send equally much.
bool gives(
    const Coordinate& holder,
    const Coordinate& receiver,
    const MeshDims& replicated,
    const MeshDims& group,
    c10::IntArrayRef mesh_shape) {
  const auto same_block = std::all_of(group.begin(), group.end(), [&](int64_t m) {
    const bool is_replica_dim = std::find(replicated.begin(), replicated.end(), m) != replicated.end();
    return is_replica_dim || holder[m] == receiver[m];
  });
  if (same_block) {
    return holder == receiver;
  }
  int64_t choice = 0;
  for (const auto m : group) {
    choice += receiver[m];
  }
  for (const auto m : replicated) {
    if (holder[m] != choice % mesh_shape[m]) {
      return false;
    }
    choice /= mesh_shape[m];
  }
  return true;
}

/// The shape of a part of a tensor from the runs or ranges of each dim.
template <class Dims>
c10::DimVector shape_of(const Dims& dims) {
  c10::DimVector shape;
  for (const auto& runs : dims) {
    int64_t length = 0;
    for (const auto& run : runs) {
      length += run.length;
    }
    shape.push_back(length);
  }
  return shape;
}

} // namespace

bool Box::is_empty() const {
  return std::any_of(dims.begin(), dims.end(), [](const auto& ranges) { return ranges.empty(); });
}

c10::DimVector Box::shape() const {
  return shape_of(dims);
}

bool Box::is_single() const {
  return std::all_of(dims.begin(), dims.end(), [](const auto& ranges) { return ranges.size() == 1; });
}

Transfer transfer(const Step& step, c10::IntArrayRef sizes, c10::IntArrayRef mesh_shape, c10::IntArrayRef coordinate) {
  const bool reduces = step.kind == StepKind::ReduceScatter;
  const Coordinate own(coordinate.begin(), coordinate.end());
  const auto own_before = region(sizes, step.before, mesh_shape, own);
  const auto own_after = region(sizes, step.after, mesh_shape, own);
  Transfer result;
  result.shape_after = shape_of(own_after);
  if (step.kind == StepKind::Slice) {
    const auto kept = message(own_before, own_after);
    result.sends.push_back(kept.sent);
    result.recvs.push_back(kept.received);
    return result;
  }
  const Members members(step.mesh_dims, mesh_shape, coordinate);
  const auto replicated = replicated_dims(step);
  for (int64_t i = 0; i < members.count(); ++i) {
    const auto other = members.coordinate(i);
    Box sent;
    Box received;
    if (reduces || gives(own, other, replicated, step.mesh_dims, mesh_shape)) {
      sent = message(own_before, region(sizes, step.after, mesh_shape, other)).sent;
    }
    if (reduces || gives(other, own, replicated, step.mesh_dims, mesh_shape)) {
      received = message(region(sizes, step.before, mesh_shape, other), own_after).received;
    }
    result.sends.push_back(std::move(sent));
    result.recvs.push_back(std::move(received));
  }
  return result;
}

} // namespace weft
