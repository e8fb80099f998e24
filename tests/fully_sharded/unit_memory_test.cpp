#include "weft/fully_sharded/unit_memory.h"

#include "tests/support/counting_allocator.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/fully_sharded/unit.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

namespace weft {

namespace unit_memory_test {
using namespace weft::testing;

TEST(UnitMemory, IsOneForEqualMeshesOfARank) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto memory = UnitMemory::of(mesh);
    EXPECT_EQ(UnitMemory::of(DeviceMesh(mesh)), memory);
    EXPECT_NE(UnitMemory::of(init_device_mesh("cpu", {2}, {"other"})), memory);
  });
  std::mutex mutex;
  std::set<std::shared_ptr<UnitMemory>> of_ranks;
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const std::lock_guard lock(mutex);
    of_ranks.insert(UnitMemory::of(mesh));
  });
  EXPECT_EQ(of_ranks.size(), 2);
}

TEST(UnitMemory, UnitsThatAreInNoModelTogetherKeepTwoBuffersInAll) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    constexpr int kUnits = 6;
    constexpr int64_t kDim = 32;
    std::vector<std::vector<at::Tensor>> parameters(kUnits);
    std::vector<std::shared_ptr<Unit>> units;
    for (auto& shown : parameters) {
      shown = {shard_parameters({whole_numbers({kDim, kDim}) / 1024}, mesh, mesh.name(0))[0].requires_grad_()};
      units.push_back(
          std::make_shared<Unit>(shown, UnitOptions{.mesh_dim = mesh.name(0)}, [&](auto put) { shown = put.vec(); }));
    }
    for (int step = 0; step < 2; ++step) {
      auto x = at::ones({2, kDim});
      for (int i = 0; i < kUnits; ++i) {
        units[i]->enter(false);
        x = at::relu(at::linear(x, parameters[i][0]));
        units[i]->leave({x});
      }
      x.sum().backward();
      for (const auto& unit : units) {
        EXPECT_FALSE(unit->is_gathered());
        EXPECT_TRUE(unit->leaves()[0].grad().defined());
      }
      const auto of_one = kDim * kDim * sizeof(float);
      const auto kept = UnitMemory::of(mesh)->pool()->bytes();
      EXPECT_GE(kept, of_one);
      EXPECT_LE(kept, BufferPool::kMostFree * (of_one + 2 * sizeof(float))); // with the votes
    }
  });
}

TEST(UnitMemory, ARankThatIsGoneDuringAGatherLeavesNoMemoryBehind) {
  static CountingAllocator allocator;
  constexpr int kUnits = 4;
  constexpr int64_t kDim = 64;
  constexpr size_t kUnitBytes = kDim * kDim * sizeof(float);
  const CountAllocations scope(allocator);
  const auto before = allocator.now();
  const auto program = [&](const DeviceMesh& mesh) {
    const auto schedule = std::make_shared<Schedule>();
    std::vector<std::vector<at::Tensor>> parameters(kUnits);
    std::vector<std::shared_ptr<Unit>> units;
    for (auto& shown : parameters) {
      shown = {shard_parameters({at::ones({kDim, kDim})}, mesh, mesh.name(0))[0].requires_grad_()};
      units.push_back(
          std::make_shared<Unit>(shown, UnitOptions{.mesh_dim = mesh.name(0)}, [&](auto put) { shown = put.vec(); }));
      units.back()->join(schedule);
    }
    const auto run = [&](int last) {
      auto x = at::ones({1, kDim});
      for (int i = 0; i < last; ++i) {
        units[i]->enter(false);
        x = at::linear(x, parameters[i][0]);
        units[i]->leave({x});
      }
      return x.sum();
    };
    run(kUnits).backward(); // the order is known from here on, so that gathers are started before they are needed
    if (mesh.rank(0) == 1) {
      run(1);
      return; // while the gather of the second unit is under way
    }
    expect_contains(error_text([&] { run(kUnits); }), "all_gather");
    for (const auto& unit : units) {
      EXPECT_FALSE(unit->is_gathered());
      unit->reshard(); // does not raise that error again
    }
  };
  on_mesh({2}, program);
  EXPECT_LT(allocator.now(), before + kUnitBytes / 4);
}

} // namespace unit_memory_test
} // namespace weft
