#include "weft/graph/deploy/weights_folder.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/save_files.h"
#include "weft/graph/deploy/safetensors.h"
#include "weft/graph/ir/parse.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::graph {

namespace weights_folder_test {
using testing::error_text;
using testing::expect_contains;

Program program_of(const at::Tensor& up, const at::Tensor& table) {
  auto program = parse_program(R"(program
    input %up: f32[6,4] = parameter "up.weight"
    input %head: f32[6,4] = parameter "head.weight"
    input %table: f32[4] = buffer "table" not_persistent
    input %x: f32[3,4] = user
      %y: f32[3,4] = aten::add.Tensor(%x, %table)
      %a: f32[3,6] = aten::linear(%y, %up)
      %b: f32[3,6] = aten::linear(%y, %head)
      %c: f32[3,6] = aten::add.Tensor(%a, %b)
    output %c = user)");
  program.tensors["up.weight"] = up;
  program.tensors["head.weight"] = up; // tied
  program.tensors["table"] = table;
  return program;
}

std::string written(const NamedTensors& tensors) {
  const auto path = ::testing::TempDir() + "weft_weights_folder_test.safetensors";
  write_safetensors(tensors, path);
  return path;
}

TEST(WeightsFolder, ReplacesParametersAndLeavesWhatIsNotSaved) {
  auto program = program_of(at::zeros({6, 4}), at::ones({4}));
  const auto weight = at::randn({6, 4});
  EXPECT_EQ(
      use_weights(program, written({{"head.weight", weight}, {"extra", at::ones({1})}})),
      std::vector<std::string>{"extra"});
  EXPECT_TRUE(at::equal(program.tensors.at("up.weight"), weight));
  EXPECT_TRUE(program.tensors.at("up.weight").is_same(program.tensors.at("head.weight")));
  EXPECT_TRUE(at::equal(program.tensors.at("table"), at::ones({4})));
}

TEST(WeightsFolder, MapsNamesAndConvertsDtypes) {
  auto program = program_of(at::zeros({6, 4}), at::ones({4}));
  const auto weight = at::randn({4, 6}).to(at::kBFloat16);
  const auto map = KeyMap::parse(R"({"up.weight": {"from": "w", "transpose": true}})");
  use_weights(program, written({{"w", weight}}), map);
  EXPECT_TRUE(at::equal(program.tensors.at("up.weight"), weight.t().to(at::kFloat)));
}

TEST(WeightsFolder, SaysWhatDoesNotFit) {
  auto program = program_of(at::zeros({6, 4}), at::ones({4}));
  expect_contains(
      error_text<c10::ValueError>([&] { use_weights(program, written({{"w", at::ones({1})}})); }),
      "all weights of the program are required, but it lacks 'up.weight'. Give a key map");
  expect_contains(
      error_text<c10::ValueError>([&] { use_weights(program, written({{"up.weight", at::ones({4, 6})}})); }),
      "[use_weights] 'up.weight' must have the shape [6, 4] that the program has, but got [4, 6] in ");
}

TEST(WeightsFolder, ADamagedCheckpointIsAnError) {
  auto program = program_of(at::zeros({6, 4}), at::ones({4}));
  const auto folder = ::testing::TempDir() + "weft_weights_folder_damaged";
  std::filesystem::remove_all(folder);
  const auto weight = at::randn({6, 4});
  save_files({.tensors = {{"up.weight", {weight}}}}, folder, RankTexts{DeviceMesh()}, {});
  use_weights(program, folder);
  EXPECT_TRUE(at::equal(program.tensors.at("up.weight"), weight));
  program.tensors.clear(); // the maps of the file
  program = program_of(at::zeros({6, 4}), at::ones({4}));
  const auto stored = load_manifest(folder, "test").stored;
  {
    std::fstream file(stored.path_of(0), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(stored.files[0].bytes) - 3);
    file.put(static_cast<char>(0x5a));
  }
  expect_contains(
      error_text<c10::ValueError>([&] { use_weights(program, folder); }),
      "[use_weights] " + stored.path_of(0) + ": tensor 'up.weight' must have the checksum ");
}

TEST(WeightsFolder, ADtypeThatWouldLoseValuesIsAnError) {
  auto program = program_of(at::zeros({6, 4}, at::kLong), at::ones({4}));
  expect_contains(
      error_text<c10::TypeError>([&] { use_weights(program, written({{"up.weight", at::ones({6, 4})}})); }),
      "[use_weights] 'up.weight' must be stored with a dtype that Long, which the program has, can hold, but got "
      "Float");
}

} // namespace weights_folder_test

} // namespace weft::graph
