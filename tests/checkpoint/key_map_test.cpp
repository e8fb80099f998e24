#include "weft/checkpoint/key_map.h"

#include "tests/support/error_text.h"
#include "tests/support/file_mutation.h"
#include "weft/checkpoint/huggingface.h"
#include "weft/checkpoint/read_files.h"
#include "weft/graph/deploy/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace weft {

namespace key_map_test {

using testing::error_text;
using testing::expect_contains;

StoredTensors stored(const std::map<std::string, at::Tensor>& tensors) {
  const auto path = ::testing::TempDir() + "weft_key_map_test.safetensors";
  graph::write_safetensors(tensors, path);
  return read_huggingface(path);
}

at::Tensor mapped(const StoredTensors& files, const std::string& map, const std::string& name) {
  std::set<std::string> used;
  const auto tensor = KeyMap::parse(map).find(files, name, used);
  EXPECT_TRUE(tensor.has_value()) << name;
  const auto result = at::empty(tensor->sizes, at::TensorOptions(tensor->dtype));
  read_tensors(files, {{.name = name, .stored = &*tensor, .wanted = full_block(tensor->sizes), .local = result}}, {});
  return result;
}

TEST(KeyMap, RenamesByPatterns) {
  const auto files = stored({{"h.3.attn.w", at::ones({2})}, {"b", at::zeros({2})}});
  const std::string map = R"({"lm.head": "b", "transformer.*": "*", "layers.*.x.*": "h.*.attn.*"})";
  EXPECT_TRUE(at::equal(mapped(files, map, "transformer.h.3.attn.w"), at::ones({2})));
  EXPECT_TRUE(at::equal(mapped(files, map, "layers.3.x.w"), at::ones({2})));
  EXPECT_TRUE(at::equal(mapped(files, map, "lm.head"), at::zeros({2})));
  EXPECT_TRUE(at::equal(mapped(files, map, "b"), at::zeros({2})));
  std::set<std::string> used;
  EXPECT_FALSE(KeyMap::parse(map).find(files, "layers.4.x.w", used).has_value());
  EXPECT_TRUE(used.empty());
}

TEST(KeyMap, FusesAndSplitsProjections) {
  const auto q = at::randn({8, 3});
  const auto k = at::randn({2, 3});
  const auto v = at::randn({2, 3});
  const auto fused = at::cat({q, k, v});
  const auto apart = stored({{"0.q", q}, {"0.k", k}, {"0.v", v}});
  EXPECT_TRUE(
      at::equal(mapped(apart, R"({"l.*.qkv": {"concat": ["*.q", "*.k", "*.v"], "dim": 0}})", "l.0.qkv"), fused));
  const auto one = stored({{"0.qkv", fused}});
  const std::string split = R"({"*.k": {"from": "*.qkv", "dim": 0, "sizes": [4, 1, 1], "part": 1},
                                "*.q": {"from": "*.qkv", "dim": -2, "sizes": [4, 1, 1], "part": 0}})";
  EXPECT_TRUE(at::equal(mapped(one, split, "0.k"), k));
  EXPECT_TRUE(at::equal(mapped(one, split, "0.q"), q));
}

TEST(KeyMap, TransposesAlsoInsideOfOtherExpressions) {
  const auto a = at::randn({3, 4});
  const auto b = at::randn({3, 2});
  const auto files = stored({{"a", a}, {"b", b}});
  EXPECT_TRUE(at::equal(mapped(files, R"({"x": {"from": "a", "transpose": true}})", "x"), a.t()));
  EXPECT_TRUE(at::equal(
      mapped(
          files, R"({"x": {"concat": [{"from": "a", "transpose": true}, {"from": "b", "transpose": true}], "dim": 0}})",
          "x"),
      at::cat({a.t(), b.t()})));
  EXPECT_TRUE(at::equal(
      mapped(files, R"({"x": {"from": {"concat": ["a", "b"], "dim": 1}, "dim": 1, "sizes": [1, 1], "part": 1}})", "x"),
      at::cat({a, b}, 1).narrow(1, 3, 3)));
}

TEST(KeyMap, OfTheWrongFormSaysSo) {
  const auto error_of = [](const std::string& map) { return error_text<c10::ValueError>([&] { KeyMap::parse(map); }); };
  expect_contains(error_of("["), "[KeyMap] JSON is required");
  expect_contains(error_of("[1]"), "[KeyMap] an object of patterns is required");
  expect_contains(error_of(R"({"a": 3})"), "[KeyMap] \"a\": a name or an object is required, but got 3.");
  expect_contains(error_of(R"({"a.*": "*.*"})"), "\"*.*\" must have no more stars than the pattern");
  expect_contains(error_of(R"({"a": {"concat": ["b"]}})"), "\"concat\": [...] and \"dim\" are required");
  expect_contains(error_of(R"({"a": {"from": "b"}})"), "with \"dim\", \"sizes\" and \"part\", is required");
  expect_contains(error_of(R"({"a": {"from": "b", "dim": 0, "sizes": [0], "part": 0}})"), "\"sizes\" must be positive");
  expect_contains(error_of(R"({"a": {"from": "b", "dim": 0, "sizes": [1], "part": 1}})"), "must be one of \"sizes\"");
  expect_contains(
      error_of(R"({"a": {"from": "b", "dim": 0, "sizes": [9223372036854775807, 9223372036854775807, 2], "part": 0}})"),
      "the sum of \"sizes\" must fit into 64 bits");
  const auto files = stored({{"a", at::ones({3})}, {"b", at::ones({2, 3})}});
  const auto find_error = [&](const std::string& map) {
    return error_text<c10::ValueError>([&] { mapped(files, map, "x"); });
  };
  expect_contains(
      find_error(R"({"x": {"from": "a", "transpose": true}})"), "[KeyMap] 'x': a matrix is required to be transposed");
  expect_contains(find_error(R"({"x": {"concat": ["a", "b"], "dim": 0}})"), "tensors of one dtype and number of dims");
  expect_contains(
      find_error(R"({"x": {"from": "a", "dim": 0, "sizes": [1, 1], "part": 0}})"), "a dim of 3 cannot be divided");
  expect_contains(find_error(R"({"x": {"from": "a", "dim": 1, "sizes": [1], "part": 0}})"), "is required, but got 1");
}

TEST(KeyMap, ThatWasChangedAnywhereIsAnErrorOrAMap) {
  const auto files = stored({{"0.q", at::ones({4, 4})}, {"0.k", at::ones({4, 4})}, {"0.qkv", at::ones({6, 2})}});
  const std::string text = R"({"l.*.x": {"concat": ["*.q", {"from": "*.k", "transpose": true}], "dim": 0},
                               "l.*.y": {"from": "*.qkv", "dim": 0, "sizes": [4, 1, 1], "part": 1}, "*": "*"})";
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    testing::FileMutation mutation(seed);
    const auto changed = seed % 2 == 0 ? mutation.json(text) : mutation.bytes(text);
    try {
      const auto map = KeyMap::parse(changed);
      std::set<std::string> used;
      for (const auto* name : {"l.0.x", "l.0.y", "0.q", ""}) {
        map.find(files, name, used);
      }
    } catch (const c10::Error& error) {
      expect_contains(error.what_without_backtrace(), "[KeyMap] ");
    }
  }
}

TEST(KeyMap, ListsWhatOnlyOneSideHas) {
  const auto files = stored({{"a", at::ones({3})}, {"embed", at::ones({2})}, {"extra", at::ones({1})}});
  const auto matched = match_keys(files, {{"a"}, {"head", "embed"}, {"c"}}, {});
  EXPECT_EQ(matched.missing, std::vector<std::string>{"c"});
  EXPECT_EQ(matched.unexpected, std::vector<std::string>{"extra"});
  EXPECT_TRUE(matched.stored.tensors.contains("head"));
  EXPECT_EQ(matched.stored.tensors.size(), 2u);
}

} // namespace key_map_test

} // namespace weft
