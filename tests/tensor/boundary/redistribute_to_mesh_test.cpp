#include "weft/tensor/boundary/redistribute_to_mesh.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace weft {

namespace redistribute_to_mesh_test {
using namespace weft::testing;

const std::vector<Placement> kPlacements = {Replicate(), Shard(0), Shard(1), Partial()};

DeviceMesh mesh_of(c10::IntArrayRef shape, c10::IntArrayRef ranks, std::vector<std::string> names) {
  return {current_world(), c10::kCPU, shape, ranks, std::move(names)};
}

TEST(RedistributeToMesh, GivesTheValueEveryLayoutOfTheOtherMesh) {
  run_on_ranks(4, [](int64_t) {
    const auto global = whole_numbers({5, 3});
    const auto flat = init_device_mesh("cpu", {4}, {"a"});
    const std::vector<DeviceMesh> others = {
        init_device_mesh("cpu", {2, 2}, {"b", "c"}), mesh_of({2, 2}, {3, 1, 0, 2}, {"b", "c"}),
        mesh_of({4}, {2, 3, 0, 1}, {"d"})};
    for (const auto& from : all_layouts(1, 2, kPlacements)) {
      const auto tensor = distribute_tensor(global, flat, from);
      for (const auto& mesh : others) {
        for (const auto& to : all_layouts(mesh.ndim(), 2, kPlacements)) {
          const auto there = redistribute(tensor, to, {.mesh = mesh});
          EXPECT_EQ(spec_of(there)->mesh(), mesh);
          EXPECT_EQ(spec_of(there)->layout(), to);
          expect_equal(full_tensor(there), global);
          expect_equal(full_tensor(redistribute(there, from, {.mesh = flat})), global);
        }
      }
    }
  });
}

TEST(RedistributeToMesh, StridedShardsGoBothWays) {
  run_on_ranks(4, [](int64_t) {
    const auto global = whole_numbers({8, 3});
    const auto flat = init_device_mesh("cpu", {4}, {"a"});
    const auto grid = init_device_mesh("cpu", {2, 2}, {"b", "c"});
    const auto tensor = distribute_tensor(global, flat, {Shard(0)});
    const auto strided = redistribute(tensor, {Replicate(), StridedShard(0, 2)}, {.mesh = grid});
    expect_equal(full_tensor(strided), global);
    expect_equal(full_tensor(redistribute(strided, {Shard(0)}, {.mesh = flat})), global);
  });
}

TEST(RedistributeToMesh, CommunicatesNothingWhereEveryRankKeepsWhatItHas) {
  run_on_ranks(4, [](int64_t) {
    const auto flat = init_device_mesh("cpu", {4}, {"a"});
    const auto tensor = distribute_tensor(whole_numbers({8, 3}), flat, {Shard(0)});
    const CommLog log(flat);
    const auto grid = init_device_mesh("cpu", {2, 2}, {"b", "c"});
    const auto there = redistribute(tensor, {Shard(0), Shard(0)}, {.mesh = grid});
    EXPECT_EQ(log.calls(), 0);
    EXPECT_FALSE(to_local(there).is_alias_of(to_local(tensor)));
    redistribute(tensor, {Shard(0), Replicate()}, {.mesh = grid});
    EXPECT_EQ(log.calls(), 1);
    EXPECT_EQ(log.bytes(), 2 * 3 * 4); // the other shard of two rows
  });
}

TEST(RedistributeToMesh, OtherRanksMayHoldTheTensorAfterwards) {
  run_on_ranks(4, [](int64_t rank) {
    const auto global = whole_numbers({5, 3});
    const auto first = mesh_of({2}, {0, 1}, {"a"});
    const auto last = mesh_of({2}, {2, 3}, {"a"});
    const auto middle = mesh_of({2}, {1, 2}, {"a"});
    const auto tensor = distribute_tensor(global, first, {Shard(0)});
    const auto on_last = redistribute(tensor, {Shard(1)}, {.mesh = last});
    const auto on_middle = redistribute(tensor, {Replicate()}, {.mesh = middle});
    if (rank >= 2) {
      expect_equal(full_tensor(on_last), global);
    }
    if (rank == 1 || rank == 2) {
      expect_equal(to_local(on_middle), global);
    }
    EXPECT_EQ(on_last.sizes(), global.sizes());
  });
}

TEST(RedistributeToMesh, KeepsTheOrderOfDimsInMemory) {
  run_on_ranks(4, [](int64_t) {
    const auto global = whole_numbers({4, 6}).t();
    const auto tensor = distribute_tensor(global, init_device_mesh("cpu", {4}, {"a"}), {Shard(0)});
    const auto there = redistribute(tensor, {Shard(1), Shard(0)}, {.mesh = init_device_mesh("cpu", {2, 2})});
    EXPECT_EQ(there.strides(), global.strides());
    expect_equal(full_tensor(there), global);
  });
}

TEST(RedistributeToMesh, TheGradientGoesBack) {
  run_on_ranks(4, [](int64_t) {
    const auto flat = init_device_mesh("cpu", {4}, {"a"});
    const auto grid = init_device_mesh("cpu", {2, 2}, {"b", "c"});
    for (const auto& layout : {Layout{Shard(0)}, Layout{Replicate()}, Layout{Partial()}}) {
      const auto tensor = distribute_tensor(whole_numbers({5, 3}), flat, layout).set_requires_grad(true);
      const auto there = redistribute(tensor, {Shard(1), Shard(0)}, {.mesh = grid});
      const auto weight = distribute_tensor(whole_numbers({5, 3}), grid, {Shard(1), Shard(0)});
      const auto gradient = torch::autograd::grad({(there * weight).sum()}, {tensor})[0];
      EXPECT_EQ(spec_of(gradient)->mesh(), flat);
      expect_equal(full_tensor(gradient), whole_numbers({5, 3}));
    }
  });
}

TEST(RedistributeToMesh, WhatCannotBeIsAnError) {
  run_on_ranks(4, [](int64_t) {
    const auto flat = init_device_mesh("cpu", {4}, {"a"});
    const auto tensor = distribute_tensor(whole_numbers({4, 3}).set_requires_grad(true), flat, {Shard(0)});
    EXPECT_EQ(
        error_text<c10::NotImplementedError>(
            [&] { redistribute(tensor, {Shard(0)}, {.mesh = mesh_of({2}, {0, 1}, {"a"})}); }),
        "[redistribute] a tensor that requires a gradient can go to a mesh of the same ranks, but got mesh(a=2) for "
        "f32[4,3] @ mesh(a=4) {S(0)}. Detach it first, and send the gradient back yourself.");
    EXPECT_EQ(
        error_text<c10::ValueError>(
            [&] { redistribute(tensor, {Shard(0)}, {.mesh = DeviceMesh::parse("mesh(a=2)")}); }),
        "[redistribute] a mesh of the tensor's world and type of device is required, but got mesh(a=2) for f32[4,3] @ "
        "mesh(a=4) {S(0)}. Gather the tensor with full_tensor and distribute that on the other mesh.");
  });
}

} // namespace redistribute_to_mesh_test

} // namespace weft
