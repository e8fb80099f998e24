#include "weft/checkpoint/state/save.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/process_ranks.h"
#include "weft/checkpoint/manifest.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/factories.h"

#include <filesystem>

namespace weft {

namespace save_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;
using testing::on_mesh;

std::string new_path(const std::string& name) {
  const auto path = fs::path(::testing::TempDir()) / ("weft_save_" + name);
  fs::remove_all(path);
  return path.string();
}

const std::vector<Placement> kPlacements = {
    Replicate(),
    Shard(0),
    Shard(1),
    StridedShard(0, 2),
    StridedShard(1, {2, 1, 1}),
    RaggedShard(0, {4, 1}),
    RaggedShard(0, {0, 2, 3}),
    RaggedShard(1, {7, 0})};

std::vector<Layout> layouts_of(const std::vector<int64_t>& mesh_shape) {
  return testing::all_layouts(mesh_shape, 2, kPlacements);
}

at::Tensor values_of(size_t number) {
  return at::arange(35, at::kFloat).view({5, 7}) + 100.0 * static_cast<double>(number);
}

/// Saves a tensor in every layout of the mesh.
void save_all(const std::vector<int64_t>& mesh_shape, const std::string& folder) {
  on_mesh(mesh_shape, [&](const DeviceMesh& mesh) {
    State state;
    const auto layouts = layouts_of(mesh_shape);
    for (size_t i = 0; i < layouts.size(); ++i) {
      state.emplace(
          c10::str("x", i), distribute_tensor(values_of(i), mesh, layouts[i], {.src_data_rank = std::nullopt}));
    }
    save(state, folder);
  });
}

TEST(Save, EveryLayoutOfAMeshIsLoadedInEveryLayoutOfAnother) {
  const std::vector<std::vector<int64_t>> meshes = {{2}, {3}, {2, 2}, {2, 3}, {5}};
  for (const auto& source : meshes) {
    const auto folder = new_path("pairs");
    save_all(source, folder);
    const auto names = layouts_of(source).size();
    const auto stored = load_manifest(folder, "load").stored;
    for (const auto& target : meshes) {
      on_mesh(target, [&](const DeviceMesh& mesh) {
        for (const auto& layout : layouts_of(target)) {
          std::map<std::string, at::Tensor> tensors;
          for (size_t i = 0; i < names; ++i) {
            tensors.emplace(c10::str("x", i), zeros({5, 7}, mesh, layout));
          }
          load_tensors(stored, tensors, {.threads = 1});
          for (size_t i = 0; i < names; ++i) {
            const auto expected = distribute_tensor(values_of(i), mesh, layout, {.src_data_rank = std::nullopt});
            ASSERT_TRUE(at::equal(to_local(tensors.at(c10::str("x", i))), to_local(expected)))
                << layouts_of(source)[i] << " to " << layout;
          }
        }
      });
    }
  }
}

TEST(Save, EveryDtypeAndShapeComesBackBitForBit) {
  const auto folder = new_path("dtypes");
  const auto dtypes = {
      at::kDouble,
      at::kFloat,
      at::kHalf,
      at::kBFloat16,
      at::kFloat8_e4m3fn,
      at::kFloat8_e5m2,
      at::kFloat8_e4m3fnuz,
      at::kFloat8_e5m2fnuz,
      at::kFloat8_e8m0fnu,
      at::kLong,
      at::kInt,
      at::kShort,
      at::kChar,
      at::kByte,
      at::kUInt16,
      at::kUInt32,
      at::kUInt64,
      at::kBool,
      at::kComplexFloat,
      at::kComplexDouble,
      at::kComplexHalf};
  const std::vector<std::vector<int64_t>> shapes = {{5, 3}, {}, {0, 4}, {1}};
  const auto value = [](at::ScalarType dtype, const std::vector<int64_t>& shape) {
    const auto bytes = c10::multiply_integers(shape) * static_cast<int64_t>(c10::elementSize(dtype));
    auto raw = at::arange(bytes, at::kByte).mul(37);
    raw = dtype == at::kBool ? raw.remainder(2) : raw;
    const auto result = at::empty(shape, at::TensorOptions(dtype));
    std::memcpy(result.mutable_data_ptr(), raw.const_data_ptr(), static_cast<size_t>(bytes));
    return result;
  };
  const auto each = [&](const auto& fn) {
    for (const auto dtype : dtypes) {
      for (size_t s = 0; s < shapes.size(); ++s) {
        fn(c10::str(dtype, s), dtype, shapes[s]);
      }
    }
  };
  const auto layout_for = [](const std::vector<int64_t>& shape, int64_t dim) {
    return shape.empty() ? Layout({Replicate()})
                         : Layout({Shard(std::min<int64_t>(dim, static_cast<int64_t>(shape.size()) - 1))});
  };
  run_on_ranks(3, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {3}, {"a"});
    State state;
    each([&](const std::string& name, at::ScalarType dtype, const auto& shape) {
      state.emplace(
          name, distribute_tensor(value(dtype, shape), mesh, layout_for(shape, 0), {.src_data_rank = std::nullopt}));
      state.emplace("plain." + name, value(dtype, shape));
    });
    save(state, folder);
  });
  run_on_ranks(2, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"});
    State state;
    each([&](const std::string& name, at::ScalarType dtype, const auto& shape) {
      state.emplace(name, empty(shape, mesh, layout_for(shape, 1), {.dtype = dtype}));
      state.emplace("plain." + name, at::empty(shape, at::TensorOptions(dtype)));
    });
    load(state, folder);
    each([&](const std::string& name, at::ScalarType dtype, const auto& shape) {
      const auto expect_bytes = [&](const at::Tensor& actual, const at::Tensor& expected) {
        ASSERT_EQ(actual.sizes(), expected.sizes()) << name;
        const auto one = actual.contiguous();
        const auto two = expected.contiguous();
        EXPECT_EQ(std::memcmp(one.const_data_ptr(), two.const_data_ptr(), one.nbytes()), 0) << name;
      };
      const auto expected =
          distribute_tensor(value(dtype, shape), mesh, layout_for(shape, 1), {.src_data_rank = std::nullopt});
      expect_bytes(to_local(state.at(name).toTensor()), to_local(expected));
      expect_bytes(state.at("plain." + name).toTensor(), value(dtype, shape));
    });
  });
}

TEST(Save, ValuesComeBack) {
  const auto folder = new_path("values");
  State state = {{"step", 7}, {"lr", 0.5}, {"name", "run"}, {"none", c10::IValue()}, {"w", at::ones({2})}};
  save(state, folder);
  State other = {{"step", 0}, {"lr", 0.}, {"name", ""}, {"w", at::zeros({2})}};
  load(other, folder);
  EXPECT_EQ(other.at("step").toInt(), 7);
  EXPECT_EQ(other.at("lr").toDouble(), 0.5);
  EXPECT_EQ(other.at("name").toStringRef(), "run");
  EXPECT_TRUE(at::equal(other.at("w").toTensor(), at::ones({2})));
  State more = {{"epoch", 0}};
  expect_contains(
      error_text<c10::ValueError>([&] { load(more, folder); }), "the value 'epoch' must be in it, but it is not.");
}

TEST(Save, TensorsWithoutValuesRaise) {
  expect_contains(
      error_text<c10::ValueError>([] { save({{"w", at::empty({2}, at::kMeta)}}, new_path("meta")); }),
      "[save] 'w' must have values, but it is on meta. Materialize it first.");
}

TEST(Save, ATensorThatOneRankCannotSaveIsAnErrorOnAll) {
  const auto folder = new_path("one_rank");
  run_on_ranks(2, [&](int64_t rank) {
    const auto tensor = rank == 1 ? at::empty({2}, at::kMeta) : at::ones({2});
    const auto sparse = rank == 0 ? at::ones({2}).to_sparse() : at::ones({2});
    for (const auto& wrong : {tensor, sparse}) {
      expect_contains(error_text<c10::ValueError>([&] { save({{"w", wrong}}, folder); }), "[save] 'w' must ");
      const auto saver = make_async_saver();
      save(*saver, {{"w", wrong}}, folder);
      expect_contains(error_text<c10::ValueError>([&] { saver->wait(); }), "[save] 'w' must ");
    }
  });
}

TEST(Save, ACopiedViewIsNotLoaded) {
  const auto folder = new_path("view");
  save({{"row", at::ones({4})}}, folder);
  run_on_ranks(2, [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto x = distribute_tensor(at::zeros({4, 4}), mesh, {Shard(0)});
    const auto row = x.select(0, 3); // on one rank alone, so every rank gets a copy
    ASSERT_TRUE(as_dtensor(row)->is_copy_of_base());
    State state = {{"row", row}};
    expect_contains(
        error_text<c10::ValueError>([&] { load(state, folder); }),
        "[load] 'row' must have memory of its own, but it is a copied view of another tensor");
  });
}

TEST(Save, ALoadedTensorIsAnotherVersion) {
  const auto folder = new_path("version");
  save({{"w", at::ones({2})}}, folder);
  State state = {{"w", at::zeros({2})}};
  const auto before = state.at("w").toTensor()._version();
  load(state, folder);
  EXPECT_GT(state.at("w").toTensor()._version(), before);
}

RANK_ROLE(saves_and_loads) {
  const std::string folder = std::getenv("WEFT_TEST_FOLDER");
  const auto mesh = init_device_mesh("cpu", {3}, {"tp"});
  const auto values = at::arange(70, at::kFloat).view({10, 7});
  const auto saver = make_async_saver();
  save(*saver, {{"w", distribute_tensor(values, mesh, {Shard(0)})}, {"step", 2}}, folder);
  saver->wait();
  State state = {{"w", zeros({10, 7}, mesh, {Shard(1)})}, {"step", 0}};
  load(state, folder);
  const auto is_equal = at::equal(full_tensor(state.at("w").toTensor()), values);
  testing::say("equal ", is_equal, " step ", state.at("step").toInt());
}

TEST(Save, RanksThatAreProcessesSaveTogether) {
  const auto folder = new_path("processes");
  for (const auto& rank :
       testing::run_process_ranks("saves_and_loads", 3, {.environment = {{"WEFT_TEST_FOLDER", folder}}})) {
    EXPECT_TRUE(rank.has_line("equal 1 step 2")) << rank.output;
  }
}

} // namespace save_test

} // namespace weft
