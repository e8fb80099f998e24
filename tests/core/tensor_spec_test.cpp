#include "weft/core/tensor_spec.h"

#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <barrier>
#include <sstream>
#include <thread>

namespace weft {

namespace tensor_spec_test {
using testing::error_text;

DeviceMesh dp_tp_mesh(int64_t rank = 0) {
  return DeviceMesh(c10::make_intrusive<World>(rank, 8), c10::kCPU, {2, 4}, {"dp", "tp"});
}

TEST(TensorSpec, HoldsWhatItWasMadeOf) {
  const auto mesh = dp_tp_mesh();
  const auto spec = TensorSpec::make(mesh, {Shard(0), Replicate()}, {8, 16}, at::kFloat);
  EXPECT_EQ(spec->mesh(), mesh);
  EXPECT_EQ(spec->layout(), Layout({Shard(0), Replicate()}));
  EXPECT_EQ(spec->placements().vec(), (std::vector<Placement>{Shard(0), Replicate()}));
  EXPECT_EQ(spec->sizes(), (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(spec->strides(), (std::vector<int64_t>{16, 1}));
  EXPECT_EQ(spec->dtype(), at::kFloat);
  EXPECT_EQ(spec->dim(), 2);
  EXPECT_EQ(spec->numel(), 128);
}

TEST(TensorSpec, DefaultStridesAreThoseOfAContiguousTensor) {
  for (const auto& sizes :
       {std::vector<int64_t>{}, {5}, {0}, {2, 3, 4}, {2, 0, 4}, {0, 0}, {1, 3, 1}, {3, 0}, {0, 3}}) {
    const auto spec = TensorSpec::make(dp_tp_mesh(), {Replicate(), Replicate()}, sizes, at::kFloat);
    const auto tensor = at::empty(sizes);
    EXPECT_EQ(spec->strides(), tensor.strides()) << sizes;
    EXPECT_EQ(spec->numel(), tensor.numel()) << sizes;
  }
}

TEST(TensorSpec, NegativeDimsAreCountedFromTheEnd) {
  const auto mesh = dp_tp_mesh();
  EXPECT_EQ(
      TensorSpec::make(mesh, {Shard(-1), Shard(-2)}, {8, 16}, at::kFloat),
      TensorSpec::make(mesh, {Shard(1), Shard(0)}, {8, 16}, at::kFloat));
}

TEST(TensorSpec, ShardOrderListsTheMeshDimsInTheOrderOfSharding) {
  const auto mesh = dp_tp_mesh();
  const auto by_default = TensorSpec::make(mesh, {Shard(0), Shard(0)}, {8, 16}, at::kFloat);
  EXPECT_EQ(by_default->shard_order(0), (MeshDims{0, 1}));
  EXPECT_EQ(by_default->shard_order(1), MeshDims{});
  const auto turned = by_default->with(Layout({Shard(0), Shard(0)}, {1, 0}));
  EXPECT_EQ(turned->shard_order(0), (MeshDims{1, 0}));
  EXPECT_NE(turned, by_default);
}

TEST(TensorSpec, EqualSpecsAreOneObject) {
  const auto mesh = dp_tp_mesh();
  const auto spec = TensorSpec::make(mesh, {Shard(0), Replicate()}, {8, 16}, at::kFloat);
  EXPECT_EQ(TensorSpec::make(mesh, {Shard(0), Replicate()}, {8, 16}, at::kFloat), spec);
  EXPECT_EQ(TensorSpec::make(mesh, {Shard(0), Replicate()}, {8, 16}, {16, 1}, at::kFloat), spec);
  EXPECT_EQ(TensorSpec::parse("f32[8,16] @ mesh(dp=2,tp=4) {S(0), R}", mesh.world()), spec);
  EXPECT_EQ(spec->with(spec->layout()), spec);
  EXPECT_EQ(spec->with({Replicate(), Replicate()})->with({Shard(0), Replicate()}), spec);
}

TEST(TensorSpec, DifferentSpecsAreDifferentObjects) {
  const auto mesh = dp_tp_mesh();
  const std::vector<SpecPtr> specs = {
      TensorSpec::make(mesh, {Shard(0), Replicate()}, {8, 16}, at::kFloat),
      TensorSpec::make(mesh, {Shard(0), Replicate()}, {8, 16}, at::kDouble),
      TensorSpec::make(mesh, {Shard(0), Replicate()}, {8, 16}, {1, 8}, at::kFloat),
      TensorSpec::make(mesh, {Shard(0), Replicate()}, {16, 8}, at::kFloat),
      TensorSpec::make(mesh, {Replicate(), Shard(0)}, {8, 16}, at::kFloat),
      TensorSpec::make(dp_tp_mesh(1), {Shard(0), Replicate()}, {8, 16}, at::kFloat),
  };
  for (size_t i = 0; i < specs.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(specs[i], specs[j]) << *specs[i] << " " << *specs[j];
      EXPECT_NE(specs[i]->hash(), specs[j]->hash()) << *specs[i] << " " << *specs[j];
    }
  }
}

TEST(TensorSpec, CountersTellHitsMissesAndSpecsAlive) {
  const auto mesh = dp_tp_mesh();
  const auto expect_change = [](const TensorSpec::InternCounters& before, int size, int hits, int misses) {
    const auto now = TensorSpec::intern_counters();
    EXPECT_EQ(now.size, before.size + size);
    EXPECT_EQ(now.hits, before.hits + hits);
    EXPECT_EQ(now.misses, before.misses + misses);
  };
  const auto before = TensorSpec::intern_counters();
  auto first = TensorSpec::make(mesh, {Shard(0), Replicate()}, {3, 7}, at::kFloat);
  expect_change(before, 1, 0, 1);
  auto second = TensorSpec::make(mesh, {Shard(0), Replicate()}, {3, 7}, at::kFloat);
  expect_change(before, 1, 1, 1);
  auto other = TensorSpec::make(mesh, {Shard(1), Replicate()}, {3, 7}, at::kFloat);
  expect_change(before, 2, 1, 2);
  first.reset();
  expect_change(before, 2, 1, 2);
  second.reset();
  expect_change(before, 1, 1, 2);
  other.reset();
  expect_change(before, 0, 1, 2);
  first = TensorSpec::make(mesh, {Shard(0), Replicate()}, {3, 7}, at::kFloat);
  expect_change(before, 1, 1, 3);
}

TEST(TensorSpec, RefusedSpecLeavesNothingBehind) {
  const auto before = TensorSpec::intern_counters();
  EXPECT_THROW(TensorSpec::make(dp_tp_mesh(), {Shard(0), Replicate()}, {-1}, at::kFloat), c10::ValueError);
  EXPECT_EQ(TensorSpec::intern_counters().size, before.size);
  EXPECT_EQ(TensorSpec::intern_counters().misses, before.misses);
}

TEST(TensorSpec, ThreadsInternTheSameObjects) {
  constexpr int kThreads = 8;
  constexpr int kSpecs = 50;
  const auto mesh = dp_tp_mesh();
  const auto before = TensorSpec::intern_counters();
  std::vector<std::vector<SpecPtr>> made(kThreads);
  std::barrier<> start(kThreads);
  std::vector<std::thread> threads;
  for (auto& specs : made) {
    threads.emplace_back([&specs, &mesh, &start] {
      start.arrive_and_wait();
      for (int i = 0; i < kSpecs; ++i) {
        specs.push_back(TensorSpec::make(mesh, {Shard(0), Replicate()}, {i, 11}, at::kFloat));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  const auto after = TensorSpec::intern_counters();
  EXPECT_EQ(after.size, before.size + kSpecs);
  EXPECT_EQ(after.misses, before.misses + kSpecs);
  EXPECT_EQ(after.hits, before.hits + (kThreads - 1) * kSpecs);
  for (const auto& specs : made) {
    EXPECT_EQ(specs, made[0]);
  }
  made.clear();
  EXPECT_EQ(TensorSpec::intern_counters().size, before.size);
}

TEST(TensorSpec, ThreadsMayMakeAndDropTheSameSpecAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  const auto mesh = dp_tp_mesh();
  const auto before = TensorSpec::intern_counters();
  std::vector<int> wrong(kThreads, 0);
  std::barrier<> start(kThreads);
  std::vector<std::thread> threads;
  for (auto& count : wrong) {
    threads.emplace_back([&count, &mesh, &start] {
      start.arrive_and_wait();
      for (int i = 0; i < kRounds; ++i) {
        const auto spec = TensorSpec::make(mesh, {Shard(0), Replicate()}, {i % 2, 13}, at::kFloat);
        const auto again = TensorSpec::make(mesh, {Shard(0), Replicate()}, {i % 2, 13}, at::kFloat);
        count += spec == again && spec->sizes()[0] == i % 2 ? 0 : 1;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
  const auto after = TensorSpec::intern_counters();
  EXPECT_EQ(after.size, before.size);
  EXPECT_EQ(after.hits + after.misses, before.hits + before.misses + 2 * kThreads * kRounds);
}

TEST(TensorSpec, TextParsesBackToTheSameSpec) {
  const auto world = c10::make_intrusive<World>(3, 8);
  for (const std::string text : {
           "f32[8,16] @ mesh(dp=2,tp=4) {S(0), R}",
           "f32[8,16|1,8] @ mesh(dp=2,tp=4) {S(0), R}",
           "f32[8,16] @ mesh(dp=2,tp=4) {S(0)[1], S(0)[0]}",
           "bf16[8,16] @ mesh(dp=2,tp=2; cuda; ranks=1,3,5,7) {SS(1,2), P(avg)}",
           "f32[] @ mesh(dp=2) {P(sum)}",
           "i64[0] @ mesh(dp=2) {S(0)}",
           "i64[3] @ mesh(dp=2) {P(max)}",
           "f64[2,0,4] @ mesh(dp=2,tp=2) {P(sum), P(avg)}",
           "c64[4,4|0,1] @ mesh(dp=2) {R}",
           "bool[1,2,3,4,5,6] @ mesh(a=2,b=2,c=2) {S(5), R, S(0)}",
       }) {
    const auto spec = TensorSpec::parse(text, world);
    EXPECT_EQ(spec->to_string(), text);
    EXPECT_EQ(TensorSpec::parse(spec->to_string(), world), spec) << text;
    EXPECT_EQ(spec->mesh().world(), world);
    std::ostringstream stream;
    stream << *spec;
    EXPECT_EQ(stream.str(), text);
  }
}

TEST(TensorSpec, ParseTakesWhatPrintsShorter) {
  const auto expected = TensorSpec::parse("f32[8,16] @ mesh(dp=2,tp=4) {S(0), S(1)}");
  EXPECT_EQ(TensorSpec::parse(" f32 [ 8 , 16 | 16 , 1 ]@mesh(dp=2,tp=4){S(0)[0],S(-1)} "), expected);
}

TEST(TensorSpec, BadTextRaisesWithThePlace) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "a word of letters, digits and underscores at column 1"},
      {"f32", "'[' at column 4"},
      {"f32[8,] @ mesh(dp=2) {R}", "an integer at column 7"},
      {"f32[8;1] @ mesh(dp=2) {R}", "']' at column 6"},
      {"f32[8] mesh(dp=2) {R}", "'@' at column 8"},
      {"f32[8] @ {R}", "'mesh(' at column 10"},
      {"f32[8] @ mesh(dp=2)", "'{' at column 20"},
      {"f32[8] @ mesh(dp=2) {R", "',' at column 23"},
      {"f32[8] @ mesh(dp=2) {R} {R}", "the end of the text at column 25"},
  };
  for (const auto& [text, expected] : bad) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { TensorSpec::parse(text); }),
        "[TensorSpec::parse] expected " + expected + ", but got '" + text +
            "'. See docs/notation.md for the notation.");
  }
  EXPECT_EQ(
      error_text<c10::ValueError>([] { TensorSpec::parse("g32[8] @ mesh(dp=2) {R}"); }).substr(0, 27),
      "[parse_dtype] expected one ");
}

TEST(TensorSpec, SpecsThatDoNotFitRaise) {
  const auto text = [](const std::string& spec) {
    return error_text<c10::ValueError>([&] { TensorSpec::parse(spec); });
  };
  EXPECT_EQ(
      text("f32[8] @ mesh(dp=2,tp=4) {R}"),
      "[TensorSpec] one placement per mesh dim is required, but got 1 placements {R} for mesh(dp=2,tp=4).");
  EXPECT_EQ(
      text("f32[8] @ mesh(dp=2) {R, S(0)}"),
      "[TensorSpec] one placement per mesh dim is required, but got 2 placements {R, S(0)} for mesh(dp=2).");
  EXPECT_EQ(text("f32[8,-1] @ mesh(dp=2) {R}"), "[TensorSpec] sizes must not be negative, but got [8,-1].");
  EXPECT_EQ(
      text("f32[8,16|1] @ mesh(dp=2) {R}"),
      "[TensorSpec] one stride per tensor dim is required, but got 1 strides for 2 dims.");
  EXPECT_EQ(
      text("f32[8] @ mesh(dp=2,tp=4) {P(sum), P(max)}"),
      "[TensorSpec] partial values on different mesh dims must be reducible in any order, but got {P(sum), P(max)}. "
      "Reduce one of them first.");
  EXPECT_EQ(
      text("f32[8] @ mesh(a=2,b=2,c=2) {P(min), R, P(product)}"),
      "[TensorSpec] partial values on different mesh dims must be reducible in any order, but got "
      "{P(min), R, P(product)}. Reduce one of them first.");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { TensorSpec::make(DeviceMesh(), {Replicate()}, {8}, at::kFloat); }),
      "[TensorSpec] a mesh is required, but got none. Make one with init_device_mesh.");
}

TEST(TensorSpec, ShardOfADimTheTensorHasNotRaises) {
  const auto text = [](const std::string& spec) {
    return error_text<c10::IndexError>([&] { TensorSpec::parse(spec); });
  };
  EXPECT_EQ(
      text("f32[8] @ mesh(dp=2) {S(1)}"),
      "[Placement] the dim of S(1) must be in [-1, 1) for a tensor of 1 dims, but got 1. "
      "Shard a dim that the tensor has.");
  EXPECT_EQ(
      text("f32[] @ mesh(dp=2) {S(0)}"),
      "[Placement] the dim of S(0) must be in [0, 0) for a tensor of 0 dims, but got 0. "
      "A 0-dim tensor can only be R or P.");
}

TEST(TensorSpec, DtypeThatCannotBeHeldRaises) {
  for (const std::string dtype : {"i64", "i32", "u8", "bool"}) {
    EXPECT_EQ(
        error_text<c10::TypeError>([&] { TensorSpec::parse(dtype + "[8] @ mesh(dp=2,tp=4) {R, P(avg)}"); }),
        "[TensorSpec] P(avg) requires a floating or complex dtype, but got " + dtype +
            " ({R, P(avg)}). Use P(sum), or convert the tensor first.");
  }
  const auto quantized =
      error_text<c10::TypeError>([] { TensorSpec::make(dp_tp_mesh(), {Replicate(), Replicate()}, {8}, at::kQInt8); });
  EXPECT_EQ(quantized.substr(0, 59), "[TensorSpec] a distributed tensor's dtype must be one of f6");
}

TEST(TensorSpec, LocalShapeAndOffsetAreThisRanks) {
  const auto block =
      TensorSpec::make(dp_tp_mesh(6), {Shard(1), Shard(0)}, {10, 5}, at::kFloat)->local_shape_and_offset();
  EXPECT_EQ(block.shape, (c10::DimVector{3, 2}));
  EXPECT_EQ(block.offset, (c10::DimVector{6, 3}));
}

TEST(TensorSpec, RankOutsideTheMeshHoldsNothing) {
  const auto block = TensorSpec::parse("f32[8,16] @ mesh(dp=2; ranks=1,3) {R}", c10::make_intrusive<World>(2, 4))
                         ->local_shape_and_offset();
  EXPECT_EQ(block.shape, (c10::DimVector{0}));
  EXPECT_EQ(block.offset, (c10::DimVector{0, 0}));
}

} // namespace tensor_spec_test

} // namespace weft
