#pragma once

#include "weft/core/device_mesh.h"
#include "weft/fully_sharded/buffer_pool.h"

#include <functional>

namespace weft {

class GradientReduction;

/// What the units of a mesh use in turn on this rank: the memory of gathered parameters, and of gradients on their way. Units that
/// are not in one model share it, too; otherwise every block on which alone fully_shard was called would keep buffers of its own.
class UnitMemory {
 public:
  explicit UnitMemory(DeviceMesh mesh) : mesh_(std::move(mesh)) {}
  /// The one of the mesh, which lives as long as one of its units.
  static std::shared_ptr<UnitMemory> of(const DeviceMesh& mesh);

  const std::shared_ptr<BufferPool>& pool() const {
    return pool_;
  }
  /// Called before the gradients of a unit are collected: waits for the reductions of the unit before, whose buffers are used again.
  void wait_for_reductions();
  /// Called with a reduction that has started, and what finishes it.
  void add_reduction(std::weak_ptr<GradientReduction> reduction, std::function<void(GradientReduction&)> finish) {
    reductions_.push_back({std::move(reduction), std::move(finish)});
  }

 private:
  DeviceMesh mesh_; // holds the world, by which it is found
  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  struct Started {
    std::weak_ptr<GradientReduction> reduction;
    std::function<void(GradientReduction&)> finish;
  };
  std::vector<Started> reductions_;
};

} // namespace weft
