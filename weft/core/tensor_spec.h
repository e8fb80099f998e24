#pragma once

#include "weft/core/device_mesh.h"
#include "weft/core/layout.h"
#include "weft/core/shard_math.h"

#include <c10/core/ScalarType.h>
#include <c10/util/DimVector.h>

namespace weft {

class TensorSpec;
using SpecPtr = c10::intrusive_ptr<TensorSpec>;

/// The metadata of a distributed tensor: mesh, layout, global shape, global strides, dtype.
///
///   f32[8,16] @ mesh(dp=2,tp=4) {S(0), R}
///   f32[8,16|1,8] @ mesh(dp=2,tp=4) {S(0), R}      with strides that are not contiguous
///
/// Immutable and interned: equal specs are one object, so comparing specs means comparing pointers. A spec lives as
/// long as something refers to it.
class TensorSpec : public c10::intrusive_ptr_target {
 public:
  /// The spec of a contiguous tensor. Raises if mesh, layout and shape do not fit each other.
  static SpecPtr make(const DeviceMesh& mesh, const Layout& layout, c10::IntArrayRef sizes, c10::ScalarType dtype);
  static SpecPtr make(
      const DeviceMesh& mesh,
      const Layout& layout,
      c10::IntArrayRef sizes,
      c10::IntArrayRef strides,
      c10::ScalarType dtype);
  static SpecPtr parse(std::string_view text, const WorldPtr& world = {});

  const DeviceMesh& mesh() const {
    return mesh_;
  }
  const Layout& layout() const {
    return layout_;
  }
  c10::ArrayRef<Placement> placements() const {
    return layout_.placements();
  }
  /// The mesh dims that shard a tensor dim, in the order in which they divide it.
  MeshDims shard_order(int64_t tensor_dim) const {
    return layout_.shard_order(tensor_dim);
  }
  c10::IntArrayRef sizes() const {
    return sizes_;
  }
  c10::IntArrayRef strides() const {
    return strides_;
  }
  c10::ScalarType dtype() const {
    return dtype_;
  }
  int64_t dim() const {
    return static_cast<int64_t>(sizes_.size());
  }
  int64_t numel() const;
  /// Whether the strides are those of a contiguous tensor. Strides of dims with one element and of empty tensors are
  /// ignored.
  bool is_contiguous() const;

  /// This rank's local shape and offset; on a rank that is not in the mesh, both are 0 in every dim.
  LocalBlock local_shape_and_offset() const;

  /// The same tensor under another layout.
  SpecPtr with(const Layout& layout) const;

  std::string to_string() const;
  size_t hash() const {
    return hash_;
  }

  /// The number of specs alive in this process, and how often `make` found a spec (hits) or made one (misses).
  struct InternCounters {
    size_t size;
    size_t hits;
    size_t misses;
  };
  static InternCounters intern_counters();

  /// intrusive_ptr calls this when the last reference is gone.
  void release_resources() override;

 private:
  friend class c10::intrusive_ptr<TensorSpec>;
  friend class InternTable;

  TensorSpec(DeviceMesh mesh, Layout layout, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype);
  bool same_as(const TensorSpec& other) const;

  DeviceMesh mesh_;
  Layout layout_;
  c10::DimVector sizes_;
  c10::DimVector strides_;
  c10::ScalarType dtype_;
  size_t hash_;
};

std::ostream& operator<<(std::ostream& out, const TensorSpec& spec);

} // namespace weft
