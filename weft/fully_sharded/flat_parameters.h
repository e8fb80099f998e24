#pragma once

#include "weft/comm/communicator.h"
#include "weft/comm/stream_point.h"
#include "weft/fully_sharded/buffer_pool.h"
#include "weft/fully_sharded/unit_options.h"
#include "weft/tensor/impl/dtensor_impl.h"

#include <optional>

namespace weft {

/// Autograd's version counter, which tensors of inference mode lack.
inline uint32_t version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? 0 : static_cast<uint32_t>(tensor._version());
}

/// Parameters of one dtype, mesh and device whose shards are one buffer on each rank, and which are gathered into one buffer by one
/// all_gather that copies nothing: along `mesh_dim` each is a ragged shard, and member i's shards of all of them are consecutive
/// in the gathered buffer (see ragged_lengths). A parameter that is sharded along another dim than the first is in the buffers with
/// that dim in front: its rows are the indices of that dim, and the parameter a strided view.
///
/// Every parameter begins at a multiple of kAlignment bytes in the gathered buffer.
class FlatParameters {
 public:
  static constexpr int64_t kAlignment = 64;

  /// `leaves` are distributed tensors, RaggedShard(dim, ...) on `mesh_dim`. With `gathered_dtype` they are cast before they are
  /// gathered. `unit` is the number by which members know the unit that they communicate about; see SubjectScope. With `offload` the
  /// leaves are on a mesh of the CPU.
  FlatParameters(
      std::vector<at::Tensor> leaves,
      int64_t mesh_dim,
      std::optional<at::ScalarType> gathered_dtype,
      uint32_t unit = 0,
      std::optional<Offload> offload = std::nullopt);

  size_t size() const {
    return leaves_.size();
  }
  const at::Tensor& leaf(size_t number) const {
    return leaves_[number];
  }
  /// On whose device they are gathered.
  const DeviceMesh& mesh() const {
    return mesh_;
  }
  const SpecPtr& spec(size_t number) const {
    return as_dtensor(leaves_[number])->spec();
  }
  /// That of the leaf on mesh().
  SpecPtr spec_on_mesh(size_t number) const;
  const std::optional<Offload>& offload() const {
    return offload_;
  }
  /// Takes another tensor of the same shape and layout in place of a leaf.
  void replace(size_t number, at::Tensor leaf);
  const std::shared_ptr<Group>& group();
  int64_t mesh_dim() const {
    return mesh_dim_;
  }
  uint32_t subject() const {
    return subject_;
  }

  /// Starts the all_gather, unless the gathered values are there, or on their way, and the shards have not been written to since.
  void start_gather(const std::shared_ptr<BufferPool>& pool);
  /// If the gather has failed its memory is let go, and the next one takes other memory.
  void finish_gather();
  bool is_gathered() const {
    return gathered_->has_memory();
  }
  /// Gives the gathered memory back; views of it are valid again after the next gather.
  void release();
  /// The same, but this rank keeps one of `ranks` equal parts of the gathered values: until release(), and while the shards are not
  /// written to, gathers are among so many neighbours along the mesh dim.
  void release_to(int64_t ranks, const std::shared_ptr<BufferPool>& pool);
  bool keeps_part() const {
    return kept_ && kept_->has_memory();
  }
  /// A number that grows when a shard has been written to since the last call, or its leaf replaced.
  uint64_t writes();

  /// The layout in which all members give their terms of a parameter's gradient, once they have agreed: on mesh dims other than that
  /// of the shards a term may be partial or not.
  const std::optional<Layout>& term_layout(size_t number) const {
    return term_layouts_[number];
  }
  void agree_on_terms(size_t number, const Layout& layout) {
    term_layouts_[number] = layout;
  }

  /// The gathered parameter: a new view of the gathered buffer.
  at::Tensor gathered_local(size_t number) const;
  at::ScalarType gathered_dtype() const {
    return gathered_->tensor().scalar_type();
  }

  /// A parameter, or a part of it, with the dim in front along which it is sharded; and back.
  at::Tensor rows_in_front(size_t number, const at::Tensor& tensor) const;
  at::Tensor rows_in_place(size_t number, const at::Tensor& tensor) const;
  /// The shape of a gathered parameter on this rank, rows in front, and the rows of it that member `member` holds.
  c10::IntArrayRef gathered_shape(size_t number) const {
    return slots_[number].shape;
  }
  Run rows(size_t number, int64_t member) const;
  /// The number of a member's rows, which may have no elements.
  int64_t row_count(size_t number, int64_t member) const {
    return slots_[number].bounds[member + 1] - slots_[number].bounds[member];
  }
  /// Where a member's rows of a parameter begin in the range of the gathered buffer that it holds; 0 if it has none.
  int64_t begin_in_range(size_t number, int64_t member) const;
  /// The number of elements of the range that a member holds.
  int64_t range_length(int64_t member) const {
    return bounds_[member + 1] - bounds_[member];
  }

 private:
  struct Slot {
    SpecPtr spec;                // of the shard
    int64_t begin;               // in the gathered buffer
    int64_t dim;                 // of the parameter, along which it is sharded
    c10::DimVector shape;        // with that dim in front
    std::vector<int64_t> bounds; // the row at which each member begins, and the number of rows
  };

  /// What says that a leaf has been written to.
  struct Seen {
    LocalMemoryPtr memory;
    uint64_t writes = 0;
    uint32_t version = 0;
    bool operator==(const Seen&) const = default;
  };

  void lay_out();
  /// What this rank sends: its range, on the device and in the dtype of the gathered values.
  at::Tensor shard_to_send() const;
  /// Whether the last all_gather and what is started now go into a graph that is captured, or neither of them.
  bool is_in_same_graph() const {
    return was_captured_ == is_captured(gathered_->tensor().device());
  }
  uint32_t lengths_hash() const;
  void abandon_gather();
  void make_buffer();
  /// The local tensor of a leaf in the layout of its shard, which `parameter.data = ...` may have changed.
  at::Tensor shard_of(size_t number) const;
  /// Makes the leaves views of one buffer again, where something else (materialize, load_state_dict) gave them other memory. Where they
  /// have another dtype now, as after `module.to(dtype)`, they are gathered in that.
  void adopt();
  void set_kept_ranks(int64_t ranks);

  std::vector<at::Tensor> leaves_;
  std::optional<Offload> offload_;
  DeviceMesh mesh_;
  int64_t mesh_dim_;
  std::optional<at::ScalarType> cast_to_; // before they are gathered
  std::shared_ptr<Group> group_;
  std::vector<Slot> slots_;
  std::vector<std::optional<Layout>> term_layouts_;
  std::vector<int64_t> bounds_;         // where the ranges of the members begin in the gathered buffer, and its length
  std::vector<int64_t> lengths_;        // of the ranges
  at::Tensor shard_;                    // this rank's range
  std::vector<LocalMemoryPtr> adopted_; // of the leaves, when they became views of it
  std::optional<PooledBuffer> gathered_;
  at::Tensor sent_; // by the all_gather that is under way
  Pending pending_;
  StreamPoint copied_;                      // where what is sent has been read from the shards, if they are on the CPU
  StreamPoint ready_;                       // where another stream may read the gathered values
  bool was_captured_ = false;               // the all_gather
  std::optional<uint64_t> gathered_writes_; // of the values in the gathered buffer
  /// What release_to() keeps.
  std::optional<PooledBuffer> kept_;
  std::shared_ptr<Group> kept_group_; // of the neighbours
  std::vector<int64_t> kept_lengths_;
  std::optional<uint64_t> kept_writes_;
  std::vector<Seen> seen_;
  uint64_t writes_ = 0;
  uint32_t subject_;
};

} // namespace weft
