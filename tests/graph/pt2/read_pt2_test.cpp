#include "weft/graph/pt2/read_pt2.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weft::graph {

namespace read_pt2_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;
using testing::linear_pt2;
using testing::Pt2File;

std::string error_of(const std::string& bytes) {
  return error_text<c10::Error>([&] { read_pt2_bytes(bytes, "m.pt2"); });
}

TEST(ReadPt2, APathAndItsBytesAreTheSameProgram) {
  const auto path = ::testing::TempDir() + "read_pt2_test." + std::to_string(::getpid());
  std::ofstream(path, std::ios::binary) << linear_pt2().bytes();
  const auto program = read_pt2(path);
  ::unlink(path.c_str()); // the map holds it
  EXPECT_EQ(program.graph->size(), 3u);
  EXPECT_EQ(program.inputs.size(), 3u);
  EXPECT_EQ(program.outputs.size(), 1u);
  EXPECT_EQ(program.tensors.at("wq.bias").sum().item<double>(), 60);
  EXPECT_FALSE(program.mesh);
}

TEST(ReadPt2, SymbolsHaveTheirRangeAndWhatTheyWere) {
  const auto program = read_pt2_bytes(linear_pt2().bytes());
  const auto& symbol = program.symbols.at("s77");
  EXPECT_EQ(symbol.hint, 4);
  EXPECT_EQ(symbol.min, 2);
  EXPECT_EQ(symbol.max, 64);
  EXPECT_EQ(program.symbols.size(), 1u);
}

TEST(ReadPt2, TruncatedAnywhereItRaisesAndNamesTheFile) {
  const auto bytes = linear_pt2().bytes();
  for (size_t size = 0; size < bytes.size(); size += 97) {
    expect_contains(error_of(bytes.substr(0, size)), "[read_pt2] m.pt2: ");
  }
}

TEST(ReadPt2, AnyByteChangedItRaisesOrReads) {
  const auto bytes = linear_pt2().bytes();
  for (size_t at = 0; at < bytes.size(); at += 7) {
    auto changed = bytes;
    changed[at] = static_cast<char>(changed[at] ^ 0x15);
    try {
      read_pt2_bytes(changed, "m.pt2");
    } catch (const c10::Error& error) {
      expect_contains(error.what(), "[read_pt2] m.pt2: ");
    }
  }
}

TEST(ReadPt2, EveryRecordThatIsNeededIsMissed) {
  const std::pair<const char*, void (*)(Pt2File&)> cases[] = {
      {"models/", [](Pt2File& file) { file.model = nullptr; }},
      {"data/weights/model_weights_config.json", [](Pt2File& file) { file.weights = nullptr; }},
      {"data/constants/model_constants_config.json", [](Pt2File& file) { file.constants = nullptr; }},
      {"archive_format", [](Pt2File& file) { file.records.erase("archive_format"); }},
      {"data/weights/weight_0", [](Pt2File& file) { file.records.erase("data/weights/weight_0"); }},
  };
  for (const auto& [record, remove] : cases) {
    auto file = linear_pt2();
    remove(file);
    expect_contains(error_of(file.bytes()), record);
  }
}

TEST(ReadPt2, OtherVersionsAndFormatsSayWhatIsRequired) {
  auto file = linear_pt2();
  file.model["schema_version"]["major"] = 9;
  EXPECT_EQ(
      error_of(file.bytes()),
      "[read_pt2] m.pt2: models/model.json: schema_version.major: a program of the schema version 8 is required, but "
      "got 9.");
  file = linear_pt2();
  file.records["archive_format"] = "zip";
  expect_contains(error_of(file.bytes()), "archive_format: an exported program is required");
  file = linear_pt2();
  file.records["archive_version"] = "7";
  expect_contains(error_of(file.bytes()), "archive_version: 0 is required, but got 7");
  file = linear_pt2();
  file.records["models/other.json"] = "{}";
  expect_contains(error_of(file.bytes()), "models/: one program is required, but the file has 2");
  file = linear_pt2();
  file.records["serialized_exported_program.json"] = "{}";
  expect_contains(error_of(file.bytes()), "of an older form than torch 2.11 writes");
}

TEST(ReadPt2, TensorsThatAreNotWhatTheGraphTakesThemForAreNamed) {
  auto file = linear_pt2();
  file.weights["config"]["wq.bias"]["tensor_meta"]["sizes"] = {{{"as_int", 2}}};
  expect_contains(
      error_of(file.bytes()),
      "signature.input_specs[1]: the graph takes \"wq.bias\" for another tensor than the file has, one of Float and "
      "sizes [2].");
  file = linear_pt2();
  file.weights["config"].erase("wq.bias");
  expect_contains(error_of(file.bytes()), "signature.input_specs[1]: the file has no tensor \"wq.bias\"");
}

/// The inputs that the fuzzers found interesting, in the folder fuzz/corpus of the project.
TEST(ReadPt2, EveryFileOfTheFuzzersCorpusRaisesOrReads) {
  const auto root = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path().parent_path();
  size_t programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "fuzz/corpus/read_pt2")) {
    try {
      read_pt2(entry.path());
      ++programs;
    } catch (const c10::Error& error) {
      expect_contains(error.what(), "[read_pt2] " + entry.path().string() + ": ");
    }
  }
  EXPECT_GE(programs, 4u); // what it began with
}

/// Removes every field of the program, or replaces it by another type: an error names the record, without a crash.
void change_each(json& value, const std::function<void()>& check) {
  const std::vector<json> others = {nullptr, true, -1, int64_t{1} << 62, "text", json::array(), json::object()};
  for (const auto& other : others) {
    const auto kept = std::exchange(value, other);
    check();
    value = kept;
  }
  if (value.is_object()) {
    std::vector<std::string> keys;
    for (const auto& [key, unused] : value.items()) {
      keys.push_back(key);
    }
    for (const auto& key : keys) {
      const auto kept = value[key];
      value.erase(key);
      check();
      value[key] = kept;
      change_each(value[key], check);
    }
  } else if (value.is_array()) {
    for (auto& element : value) {
      change_each(element, check);
    }
  }
}

TEST(ReadPt2, AnyFieldOfAnotherTypeIsNamedOrRead) {
  auto file = linear_pt2();
  size_t errors = 0;
  const auto check = [&] {
    try {
      read_pt2_bytes(file.bytes(), "m.pt2");
    } catch (const c10::Error& error) {
      ++errors;
      expect_contains(error.what(), "[read_pt2] m.pt2: ");
    }
  };
  change_each(file.model, check);
  change_each(file.weights, check);
  EXPECT_GT(errors, 1000u);
}

} // namespace read_pt2_test

} // namespace weft::graph
