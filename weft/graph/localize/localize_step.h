#pragma once

#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/local_sizes.h"

#include <functional>

namespace weft::graph {

/// A redistribution step as the calls that one rank makes: functional collectives, and operators that cut, pad and join.
/// Dims that do not divide are padded to equal pieces, so that every rank sends as much and the collectives are the same on
/// all ranks.
class StepLowering {
 public:
  /// `group_names`: what the groups along mesh dims are called, where that is not the names of the mesh dims.
  StepLowering(
      GraphBuilder& build,
      const DeviceMesh& mesh,
      MeshPlace place,
      const std::map<std::string, std::string>& group_names)
      : build_(build), mesh_(mesh), place_(std::move(place)), group_names_(group_names) {}

  /// `local` is this rank's part of a tensor of these sizes, as the step finds it; gives the part after it. All ranks make
  /// the same collectives, and what comes out depends on them on all ranks, even where a part is empty.
  Value* lower(const Step& given, Value* local, const Sizes& sizes);

 private:
  using Reduction = std::function<Value*(Value*)>;
  /// What a collective makes of the ranks' terms; of an average, by their sum.
  Value* reduced(ReduceOp op, int64_t ranks, Value* local, const Reduction& reduction);
  Value* all_reduce(const Step& step, Value* local);
  Value* make_partial(const Step& step, Value* local);
  Value* reduce_scatter(const Step& step, Value* local, const Sizes& sizes);
  /// Whether a gathering or a slice is one after the other along mesh dims, and that.
  bool joins_pieces(const Step& step) const;
  Value* gather_all(const Step& step, Value* local, const Sizes& sizes);
  bool cuts_pieces(const Step& step) const;
  Value* cut_all(const Step& step, Value* local, const Sizes& sizes);
  Value* gather(Value* local, const Layout& before, int64_t mesh_dim, const Sizes& sizes);
  Value* cut(Value* local, const Layout& before, int64_t mesh_dim, int64_t tensor_dim, const Sizes& sizes);
  Value* exchange(Value* local, const Layout& before, int64_t mesh_dim, int64_t to_dim, const Sizes& sizes);
  /// A step that cuts or joins strided pieces of a dim, as a step on the dim that is left when the pieces are one of their
  /// own; nullptr where that is not possible.
  Value* unfolded(const Step& step, Value* local, const Sizes& sizes);
  /// Any move of data: every rank is sent what it lacks. Of sizes that are no numbers nobody knows what that is; then
  /// everything is gathered and cut again.
  Value* transfer(const Step& step, Value* local, const Sizes& sizes);

  /// nullptr where strided pieces would have to be joined or cut.
  Value* gather_and_cut(const Step& step, Value* local, const Sizes& sizes);

  Value* wait(Value* pending);
  Value* narrow(Value* local, int64_t tensor_dim, const Size& begin, const Size& length);
  Value* pad(Value* local, int64_t tensor_dim, const Size& length);
  /// Pieces along one dim become pieces along another: those of dim 0 are what collectives cut and join.
  Value* split_and_join(Value* local, int64_t from_dim, int64_t to_dim, int64_t parts);
  Value* contiguous(Value* local);
  std::string group(c10::IntArrayRef mesh_dims) const;
  Size length_before(const Layout& before, int64_t mesh_dim, int64_t tensor_dim, const Sizes& sizes) const;

  GraphBuilder& build_;
  const DeviceMesh& mesh_;
  MeshPlace place_;
  const std::map<std::string, std::string>& group_names_;
};

} // namespace weft::graph
