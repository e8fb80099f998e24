#pragma once

#include "weft/graph/passes/graph_builder.h"
#include "weft/graph/passes/local_sizes.h"

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

  /// `local` is this rank's part of a tensor of these sizes, as the step finds it; gives the part after it.
  Value* lower(const Step& step, Value* local, const Sizes& sizes);

 private:
  Value* all_reduce(const Step& step, Value* local);
  Value* make_partial(const Step& step, Value* local);
  Value* reduce_scatter(const Step& step, Value* local, const Sizes& sizes);
  Value* gather(Value* local, const Layout& before, int64_t mesh_dim, const Sizes& sizes);
  Value* cut(Value* local, const Layout& before, int64_t mesh_dim, int64_t tensor_dim, const Sizes& sizes);
  Value* exchange(Value* local, const Layout& before, int64_t mesh_dim, int64_t to_dim, const Sizes& sizes);
  /// A step that cuts or joins strided pieces of a dim, as a step on the dim that is left when the pieces are one of their
  /// own; nullptr where that is not possible.
  Value* unfolded(const Step& step, Value* local, const Sizes& sizes);
  /// Any move of data whose sizes are numbers: every rank is sent what it lacks.
  Value* transfer(const Step& step, Value* local, const Sizes& sizes);

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
