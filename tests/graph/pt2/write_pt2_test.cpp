#include "weft/graph/pt2/write_pt2.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"
#include "weft/graph/pt2/archive.h"
#include "weft/graph/pt2/read_pt2.h"

#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace weft::graph {

namespace write_pt2_test {
using testing::error_text;
using testing::expect_contains;
using testing::linear_pt2;

class WritePt2 : public ::testing::Test {
 protected:
  WritePt2()
      : folder_(::testing::TempDir() + "write_pt2_test." + std::to_string(::getpid())), path_(folder_ + "/m.pt2") {
    std::filesystem::create_directory(folder_);
  }
  ~WritePt2() override {
    std::filesystem::remove_all(folder_);
  }
  size_t count_files() const {
    const std::filesystem::directory_iterator files(folder_);
    return std::distance(begin(files), end(files));
  }

  std::string folder_;
  std::string path_;
};

TEST_F(WritePt2, WhatIsWrittenIsReadAgain) {
  const auto program = read_pt2_bytes(linear_pt2().bytes());
  write_pt2(program, path_);
  const auto again = read_pt2(path_);
  ASSERT_EQ(again.graph->size(), program.graph->size());
  const auto* other = again.graph->first();
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next(), other = other->next()) {
    EXPECT_EQ(target_name(*node), target_name(*other));
    EXPECT_EQ(node->origin.module, other->origin.module);
    for (size_t i = 0; i < node->outputs().size(); ++i) {
      EXPECT_EQ(node->output(i)->name(), other->output(i)->name());
      EXPECT_EQ(node->output(i)->type, other->output(i)->type);
    }
  }
  for (const auto& [name, tensor] : program.tensors) {
    EXPECT_TRUE(tensor.equal(again.tensors.at(name))) << name;
  }
  EXPECT_EQ(again.symbols.at("s77").hint, 4);
  EXPECT_EQ(again.symbols.at("s77").max, 64);
  EXPECT_EQ(count_files(), 1u);
}

TEST_F(WritePt2, WeightsAreAlignedSoThatTheyAreUsedWhereTheyAre) {
  write_pt2(read_pt2_bytes(linear_pt2().bytes()), path_);
  const auto program = read_pt2(path_);
  for (const auto& [name, tensor] : program.tensors) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % 64, 0u) << name;
  }
}

TEST_F(WritePt2, AProgramMayBeWrittenOverTheFileItWasReadFrom) {
  write_pt2(read_pt2_bytes(linear_pt2().bytes()), path_);
  auto program = read_pt2(path_);
  program.tensors["wq.bias"] = at::ones({3});
  write_pt2(program, path_);
  EXPECT_TRUE(read_pt2(path_).tensors.at("wq.bias").equal(at::ones({3})));
  EXPECT_EQ(program.tensors.at("wq.weight").sum().item<double>(), 21);
}

TEST_F(WritePt2, AProgramOfNoFileHasCollectivesAndAFlatCallingConvention) {
  Program program;
  auto& graph = *program.graph;
  const auto type = contiguous_type(at::kFloat, {2, 3});
  auto* x = graph.add_input("x", type);
  program.inputs.push_back({InputKind::User, "", true, std::nullopt, x});
  const auto find = [](const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); };
  auto* reduce = graph.insert(
      nullptr, find("_c10d_functional::all_reduce"), {Argument::operand(0), Argument("sum"), Argument("dp,tp")}, {x},
      {{type}});
  auto* wait = graph.insert(
      nullptr, find("_c10d_functional::wait_tensor"), {Argument::operand(0)}, {reduce->output()}, {{type}});
  graph.set_return({wait->output()});
  program.outputs.push_back({});
  write_pt2(program, path_);
  const auto again = read_pt2(path_);
  EXPECT_EQ(target_name(*again.graph->first()), "_c10d_functional::all_reduce");
  EXPECT_EQ(again.graph->first()->arguments()[2].constant().toStringRef(), "dp,tp");
  expect_contains(again.calling_convention, "module_call_graph");
}

TEST_F(WritePt2, ProgramsWithLayoutsAreNotWritten) {
  auto program = read_pt2_bytes(linear_pt2().bytes());
  program.graph->inputs()[0]->layout = Layout{Replicate()};
  expect_contains(
      error_text<c10::ValueError>([&] { write_pt2(program, path_); }),
      "[write_pt2] a program of a rank is required, but got one whose tensors have layouts: %w");
  EXPECT_EQ(count_files(), 0u);
}

TEST_F(WritePt2, WhatFailsLeavesTheOldFileAndNothingElse) {
  std::ofstream(path_) << "old";
  auto program = read_pt2_bytes(linear_pt2().bytes());
  program.tensors.erase("wq.bias");
  EXPECT_THROW(write_pt2(program, path_), c10::ValueError);
  EXPECT_EQ(std::filesystem::file_size(path_), 3u);
  EXPECT_EQ(count_files(), 1u);
  expect_contains(
      error_text<c10::ValueError>([&] { write_pt2(read_pt2_bytes(linear_pt2().bytes()), folder_ + "/no/m.pt2"); }),
      "/no/m.pt2: cannot be created: No such file or directory");
}

/// The bytes of files and the allocated bytes that this process has in memory. Freed memory that the allocator keeps is
/// not counted: after a large tensor it is nothing or up to twice the tensor's size, depending on its address.
int64_t resident_bytes() {
  ::malloc_trim(0);
  int64_t total = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST_F(WritePt2, OneTensorAtATimeIsInMemory) {
  // 8 tensors of 16 MiB, each written as a view of half of its columns, which has to be copied.
  constexpr int64_t kSide = 2048;
  Program program;
  auto& graph = *program.graph;
  std::vector<Value*> values;
  for (int64_t i = 0; i < 8; ++i) {
    const auto name = "w" + std::to_string(i);
    auto* value = graph.add_input(name, contiguous_type(at::kFloat, {kSide, kSide}));
    program.inputs.push_back({InputKind::Parameter, name, true, std::nullopt, value});
    program.outputs.push_back({OutputKind::User, "", std::nullopt, values.size()});
    program.tensors[name] = at::full({kSide, kSide}, static_cast<float>(i));
    values.push_back(value);
  }
  graph.set_return(values);
  write_pt2(program, path_);
  program.tensors.clear();

  auto mapped = read_pt2(path_);
  for (auto& [name, tensor] : mapped.tensors) {
    tensor = tensor.narrow(1, 0, kSide / 2);
  }
  for (const auto& input : mapped.inputs) {
    std::get<TensorType>(input.value->type).sizes[1] = kSide / 2;
  }
  const auto before = resident_bytes();
  int64_t most = 0;
  for (int run = 0; run < 2; ++run) {
    write_pt2(mapped, folder_ + "/half.pt2");
    most = std::max(most, resident_bytes() - before);
  }
  EXPECT_LT(most, 3 * kSide * kSide * 4);
  EXPECT_EQ(read_pt2(folder_ + "/half.pt2").tensors.at("w7").sum().item<double>(), 7.0 * kSide * kSide / 2);
}

} // namespace write_pt2_test

} // namespace weft::graph
