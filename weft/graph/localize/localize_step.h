#pragma once

#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/local_sizes.h"

#include <functional>

namespace weft::graph {

/// Lowers a redistribution step to the calls that one rank makes: functional collectives, and operators that slice, pad
/// and join. Dims that do not divide evenly are padded to equal shards, so that every rank sends equally much and the
/// collectives are the same on all ranks.
class StepLowering {
 public:
  /// `group_names`: names of groups by the mesh dims they span; a group that is not listed is named by its mesh dims.
  StepLowering(
      GraphBuilder& build,
      const DeviceMesh& mesh,
      MeshPlace place,
      const std::map<std::string, std::string>& group_names)
      : build_(build), mesh_(mesh), place_(std::move(place)), group_names_(group_names) {}

  /// `local` is this rank's local tensor before the step, of a tensor with these global sizes. Returns the local tensor
  /// after the step. All ranks make the same collectives, and the result depends on them on all ranks, even where the
  /// local tensor is empty.
  Value* lower(const Step& given, Value* local, const Sizes& sizes);

 private:
  using Reduction = std::function<Value*(Value*)>;
  /// The result of a collective that reduces the ranks' terms. An average is a sum that is divided by the number of
  /// ranks.
  Value* reduced(ReduceOp op, int64_t ranks, Value* local, const Reduction& reduction);
  Value* all_reduce(const Step& step, Value* local);
  Value* make_partial(const Step& step, Value* local);
  Value* reduce_scatter(const Step& step, Value* local, const Sizes& sizes);
  /// Whether a step can gather, or slice, adjacent shards along one mesh dim after the other; the calls that do so.
  bool joins_adjacent_shards(const Step& step) const;
  Value* gather_all(const Step& step, Value* local, const Sizes& sizes);
  bool slices_adjacent_shards(const Step& step) const;
  Value* slice_all(const Step& step, Value* local, const Sizes& sizes);
  Value* gather(Value* local, const Layout& before, int64_t mesh_dim, const Sizes& sizes);
  Value* slice(Value* local, const Layout& before, int64_t mesh_dim, int64_t tensor_dim, const Sizes& sizes);
  Value* exchange(Value* local, const Layout& before, int64_t mesh_dim, int64_t to_dim, const Sizes& sizes);
  /// A step that shards or gathers the blocks of a StridedShard: views the blocks as a dim of their own, so that it
  /// becomes a step with Shard on the dim behind it. nullptr where that is not possible.
  Value* unfolded(const Step& step, Value* local, const Sizes& sizes);
  /// Any other step: sends every rank the elements that it lacks, by an all_to_all. Which these are is known only if
  /// the sizes are numbers; for symbols, gathers the tensor and slices it again.
  Value* transfer(const Step& step, Value* local, const Sizes& sizes);

  /// nullptr where strided shards would have to be joined or sliced.
  Value* gather_and_slice(const Step& step, Value* local, const Sizes& sizes);

  Value* wait(Value* pending);
  Value* narrow(Value* local, int64_t tensor_dim, const Size& begin, const Size& length);
  Value* pad(Value* local, int64_t tensor_dim, const Size& length);
  /// Splits a tensor along one dim into `count` chunks and joins these along another dim. Collectives split and join
  /// along dim 0 only.
  Value* split_and_join(Value* local, int64_t from_dim, int64_t to_dim, int64_t count);
  Value* contiguous(Value* local);
  std::string group(c10::IntArrayRef mesh_dims) const;
  Size length_before(const Layout& before, int64_t mesh_dim, int64_t tensor_dim, const Sizes& sizes) const;

  GraphBuilder& build_;
  const DeviceMesh& mesh_;
  MeshPlace place_;
  const std::map<std::string, std::string>& group_names_;
};

} // namespace weft::graph
