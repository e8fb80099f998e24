#include "weft/graph/pipeline/pass_dump.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft::graph {

namespace pass_dump_test {
namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

class PassDumps : public ::testing::Test {
 protected:
  PassDumps() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~PassDumps() override {
    fs::remove_all(root_);
  }

  fs::path root_ = fs::path(::testing::TempDir()) / "weft_pass_dump_test";
};

TEST_F(PassDumps, HoldTextsThatParseBack) {
  const auto program =
      parse_program("program\n input %x: f32[4] = user\n %y: f32[4] = aten::relu(%x)\n output %y = user");
  PassDump(root_ / "new" / "folder").write(7, "relu", program);
  std::ifstream file(root_ / "new" / "folder" / "07_relu.txt");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), to_string(program));
  EXPECT_EQ(to_string(parse_program(text.str())), to_string(program));
}

TEST_F(PassDumps, OverwriteNothing) {
  const PassDump empty(root_); // one that is there may be used
  std::ofstream(root_ / "notes.txt") << "mine";
  expect_contains(
      error_text<c10::ValueError>([&] { PassDump{root_.string()}; }),
      "[PassDump] " + root_.string() +
          ": a new or empty folder is required for the texts of passes, but it is not empty. Remove it, or name "
          "another.");
  for (const auto& path : {root_ / "notes.txt", root_ / "notes.txt" / "folder"}) {
    expect_contains(
        error_text<c10::ValueError>([&] { PassDump{path.string()}; }),
        "[PassDump] " + path.string() +
            ": a folder for the texts of passes is required, but it cannot be created: Not a directory. Name another.");
  }
  EXPECT_EQ(fs::file_size(root_ / "notes.txt"), 4U);
}

} // namespace pass_dump_test

} // namespace weft::graph
