#pragma once

#include "weft/core/layout.h"
#include "weft/core/world.h"

#include <c10/core/DeviceType.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

/// The coordinate of rank number `index` of a mesh: the last dim counts fastest.
///
///   coordinate_at(6, {2, 4})   // {1, 2}
std::vector<int64_t> coordinate_at(int64_t index, c10::IntArrayRef mesh_shape);

/// An N-D array of ranks with named dims, as one rank sees it. A cheap immutable handle.
///
///   DeviceMesh mesh(world, c10::kCPU, {2, 4}, {"dp", "tp"});
///   mesh.to_string();              // "mesh(dp=2,tp=4)"
///   mesh.coordinate();             // {1, 2} on rank 6
///   mesh.submesh({"tp"});          // "mesh(tp=4; ranks=4,5,6,7)" on rank 6
///   mesh.flatten({"dp", "tp"});    // "mesh(dp_tp=8)"
///
/// Every rank of the world may hold the mesh. A rank that is not among the mesh's ranks is not a member and cannot
/// compute on it.
///
/// Meshes with the same text in one world are equal and share their groups, however often they are made. Meshes that
/// differ in anything (names, shape, ranks, device type) are independent: two threads may communicate on them at the
/// same time. A mesh over some dims of another mesh is an independent mesh as well.
class DeviceMesh {
 public:
  /// An undefined mesh, to be assigned to.
  DeviceMesh() = default;
  /// Ranks 0, 1, ... in row-major order. Without names the dims are d0, d1, ...
  DeviceMesh(WorldPtr world, c10::DeviceType device_type, c10::IntArrayRef shape, std::vector<std::string> names = {});
  /// An explicit rank array, row-major.
  DeviceMesh(
      WorldPtr world,
      c10::DeviceType device_type,
      c10::IntArrayRef shape,
      c10::IntArrayRef ranks,
      std::vector<std::string> names = {});

  /// Without a world the mesh is for planning only: it is seen from rank 0 and cannot communicate.
  static DeviceMesh parse(std::string_view text, WorldPtr world = {});
  static DeviceMesh parse(class TextCursor& cursor, WorldPtr world = {});

  bool defined() const {
    return data_ != nullptr;
  }
  const WorldPtr& world() const {
    return data_->world;
  }
  c10::DeviceType device_type() const {
    return data_->device_type;
  }
  int64_t ndim() const {
    return static_cast<int64_t>(data_->shape.size());
  }
  c10::IntArrayRef shape() const {
    return data_->shape;
  }
  /// The number of ranks of the mesh, or along one mesh dim.
  int64_t size() const {
    return static_cast<int64_t>(data_->ranks.size());
  }
  int64_t size(int64_t mesh_dim) const {
    return data_->shape[mesh_dim];
  }
  c10::IntArrayRef ranks() const {
    return data_->ranks;
  }
  const std::vector<std::string>& names() const {
    return data_->names;
  }
  const std::string& name(int64_t mesh_dim) const {
    return data_->names[mesh_dim];
  }

  bool is_member() const {
    return !data_->coordinate.empty();
  }
  /// This rank's index along every mesh dim; raises on a rank that is not in the mesh.
  c10::IntArrayRef coordinate() const;
  /// This rank's index along one mesh dim.
  int64_t rank(int64_t mesh_dim) const {
    return coordinate()[mesh_dim];
  }

  /// The index of a mesh dim, or of several, by name; the error for an unknown name lists the mesh's names.
  int64_t dim(std::string_view name) const;
  MeshDims dims(c10::ArrayRef<std::string> names) const;

  /// The mesh over the named dims, in the given order, at this rank's position along the other dims.
  DeviceMesh submesh(c10::ArrayRef<std::string> names) const;
  /// The mesh in which the named dims are joined into one dim, at the position of the first of them. Its name is a_b
  /// unless `flat_name` is given.
  DeviceMesh flatten(c10::ArrayRef<std::string> names, std::string flat_name = {}) const;

  /// The members of the group along these mesh dims: the ranks that differ from this rank only along them, row-major in
  /// mesh order.
  std::vector<int64_t> ranks_along(c10::IntArrayRef mesh_dims) const;
  /// The number of ranks in such a group.
  int64_t group_size(c10::IntArrayRef mesh_dims) const;
  /// "dp,tp": the text of a set of mesh dims in plans, logs and errors.
  std::string dims_text(c10::IntArrayRef mesh_dims) const;

  std::string to_string() const;
  size_t hash() const {
    return defined() ? data_->hash : 0;
  }
  /// Equal meshes have the same ranks, shape, names and device type, and are seen from the same rank.
  friend bool operator==(const DeviceMesh& a, const DeviceMesh& b);

  /// The value that weft/comm keeps for a set of mesh dims, or nullptr. It lives as long as any copy of this handle.
  std::shared_ptr<void> kept_for(c10::IntArrayRef mesh_dims) const;
  void keep_for(c10::IntArrayRef mesh_dims, std::shared_ptr<void> value) const;

 private:
  struct Kept;
  struct Data {
    WorldPtr world;
    c10::DeviceType device_type;
    std::vector<int64_t> shape;
    std::vector<int64_t> ranks;
    std::vector<std::string> names;
    std::vector<int64_t> coordinate; // empty if this rank is not a member
    size_t hash;
    std::shared_ptr<Kept> kept; // the last field, because kept values may need the world while they are destroyed
  };

  /// The ranks of the sub-array that `mesh_dims` span (in that order) through the coordinate `start`.
  std::vector<int64_t> ranks_spanned(c10::IntArrayRef mesh_dims, c10::IntArrayRef start) const;

  std::shared_ptr<const Data> data_;
};

std::ostream& operator<<(std::ostream& out, const DeviceMesh& mesh);

} // namespace weft

template <>
struct std::hash<weft::DeviceMesh> {
  size_t operator()(const weft::DeviceMesh& mesh) const {
    return mesh.hash();
  }
};
