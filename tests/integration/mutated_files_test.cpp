#include "fuzz/quiet_errors.h"
#include "tests/support/file_mutation.h"
#include "tests/support/pt2_file.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/deploy/global_run.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/deploy/sharded_folder.h"
#include "weft/graph/exec/executor.h"
#include "weft/graph/ir/clone.h"
#include "weft/graph/ir/node_error.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/pt2/read_pt2.h"
#include "weft/graph/pt2/write_pt2.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace weft {

namespace mutated_files_test {
namespace fs = std::filesystem;
using graph::Program;
using testing::FileMutation;

constexpr int64_t kDefaultCount = 300;

/// How often each reader is given a file that was changed: WEFT_MUTATIONS, which `make mutate` sets.
int64_t count() {
  const char* text = std::getenv("WEFT_MUTATIONS");
  return text == nullptr ? kDefaultCount : std::stoll(text);
}

std::string content(const fs::path& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}
void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Whoever believes a number of the file asks for more than this: that is an error of memory, and no plain one.
class MemoryLimit {
 public:
  MemoryLimit() {
    ::getrlimit(RLIMIT_AS, &former_);
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    constexpr uint64_t kMore = uint64_t{4} << 30;
    const rlimit limit{pages * ::sysconf(_SC_PAGESIZE) + kMore, former_.rlim_max};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  ~MemoryLimit() {
    ::setrlimit(RLIMIT_AS, &former_);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit former_ = {};
};

void expect_plain(const std::exception& error) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch_error == nullptr ? error.what() : torch_error->what_without_backtrace();
  EXPECT_NE(torch_error, nullptr) << "an exception that is no error of Weft: " << text;
  EXPECT_FALSE(graph::is_defect(error)) << text;
  for (const auto* sign : {"ran into a defect", "bad_alloc", "not enough memory", "can't allocate memory"}) {
    EXPECT_EQ(text.find(sign), std::string::npos) << text;
  }
}

class MutatedFiles : public ::testing::Test {
 protected:
  MutatedFiles() {
    fuzz::quiet_errors();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~MutatedFiles() override {
    fs::remove_all(root_);
  }

  /// Calls `read` with a mutation per seed; what it raises must be a plain error. Some must be refused and some accepted: else
  /// the mutations would test nothing.
  void mutate(const std::function<void(FileMutation& mutation)>& read) {
    int64_t refused = 0;
    const MemoryLimit limit;
    for (int64_t seed = 0; seed < count() && !HasFailure(); ++seed) {
      SCOPED_TRACE(c10::str("seed ", seed));
      FileMutation mutation(static_cast<uint64_t>(seed));
      try {
        read(mutation);
      } catch (const std::exception& error) {
        ++refused;
        expect_plain(error);
      }
    }
    EXPECT_GT(refused, count() / 10);
    EXPECT_LT(refused, count());
    std::cout << count() << " mutations, " << refused << " refused\n";
  }

  Program program() const {
    auto program = graph::parse_program(R"(program
      input %up: f32[12,4] = parameter "up.weight"
      input %down: f32[4,6] = parameter "down.weight"
      input %x: f32[3,4] = user
        %a: f32[3,12] = aten::linear(%x, %up) in up
        [%p: f32[3,6], %q: f32[3,6]] = aten::chunk(%a, 2, 1)
        %m: f32[3,6] = aten::mul.Tensor(%p, %q)
        %b: f32[3,4] = aten::linear(%m, %down) in down
      output %b = user)");
    program.tensors["up.weight"] = up_;
    program.tensors["down.weight"] = down_;
    return program;
  }
  void expect_result(const at::Tensor& result) const {
    const auto parts = at::linear(x_, up_).chunk(2, 1);
    EXPECT_TRUE(at::allclose(result, at::linear(parts[0] * parts[1], down_)));
  }
  void write_folder() const {
    auto whole = program();
    graph::shard(whole, analysis_mesh("tp=2"), nn::ParallelPlan::parse(kPlan, "plan"));
    graph::write_sharded(whole, folder_.string());
  }

  static constexpr const char* kPlan =
      R"x({"up": {"style": "colwise", "parts": 2, "output": "S(-1)"}, "dow[mn]": {"style": "rowwise", "input": "S(-1)"}})x";
  fs::path root_ = fs::path(::testing::TempDir()) / c10::str("weft_mutated_files.", ::getpid());
  fs::path folder_ = root_ / "out";
  at::Tensor up_ = at::arange(48).view({12, 4}).remainder(5).to(at::kFloat);
  at::Tensor down_ = at::arange(24).view({4, 6}).remainder(7).to(at::kFloat);
  at::Tensor x_ = at::arange(12).view({3, 4}).to(at::kFloat);
};

/// The small exported programs that the fuzzers begin with.
std::vector<std::string> exported_programs() {
  std::vector<std::string> files;
  for (const auto* name : {"linear", "several", "sizes", "decomposed"}) {
    files.push_back(content(fs::path(__FILE__).parent_path() / "../../fuzz/corpus/read_pt2" / name));
    EXPECT_FALSE(files.back().empty()) << name;
  }
  return files;
}

TEST_F(MutatedFiles, ExportedProgramsAreReadAsTheyWereOrRefused) {
  const auto files = exported_programs();
  std::vector<Program> programs;
  for (const auto& file : files) {
    programs.push_back(graph::read_pt2_bytes(file));
  }
  size_t next = 0;
  mutate([&](FileMutation& mutation) {
    const auto which = next++ % files.size();
    const auto read = graph::read_pt2_bytes(mutation.bytes(files[which]));
    EXPECT_EQ(to_string(read), to_string(programs[which]));
    for (const auto& [name, tensor] : programs[which].tensors) {
      EXPECT_TRUE(at::equal(read.tensors.at(name), tensor)) << name;
    }
  });
}

/// With the checksums that its records have then, a changed program is a program: it may be another one.
TEST_F(MutatedFiles, ProgramsOfChangedGraphsGoThroughAllPassesOrAreRefused) {
  const auto files = exported_programs();
  size_t next = 0;
  mutate([&](FileMutation& mutation) {
    const graph::Archive archive(graph::MappedFile::from_bytes(files[next % files.size()], "program"));
    const auto changed = next++ % 5 == 0 ? "data/weights/model_weights_config.json" : "models/model.json";
    std::vector<std::pair<std::string, std::string>> records;
    for (const auto& name : archive.names()) {
      std::string record(archive.record(name));
      records.emplace_back(name, name == changed ? mutation.json(record) : std::move(record));
    }
    auto read = graph::read_pt2_bytes(testing::zip_file(records));
    graph::Executor(std::make_shared<const Program>(graph::clone(read)));
    graph::shard(read, analysis_mesh("tp=2"), {});
    graph::write_pt2(graph::program_of_rank(read, 1), root_ / "rank.pt2");
  });
}

TEST_F(MutatedFiles, PlansGiveTheSameResultOrAreRefused) {
  size_t next = 0;
  mutate([&](FileMutation& mutation) {
    const auto text = next++ % 2 == 0 ? mutation.json(kPlan) : mutation.bytes(kPlan);
    auto whole = program();
    graph::shard(whole, analysis_mesh("tp=2"), nn::ParallelPlan::parse(text, "plan"));
    std::vector<std::shared_ptr<const Program>> ranks;
    for (const int64_t rank : {0, 1}) {
      ranks.push_back(std::make_shared<const Program>(graph::program_of_rank(whole, rank)));
    }
    expect_result(graph::run_on_threads(ranks, graph::manifest_of(whole))->run({{"x", x_}})[0]);
  });
}

TEST_F(MutatedFiles, ManifestsSayTheSameOrAreRefused) {
  write_folder();
  const auto text = content(folder_ / graph::Manifest::kFile);
  size_t next = 0;
  mutate([&](FileMutation& mutation) {
    const auto changed = next++ % 2 == 0 ? mutation.json(text) : mutation.bytes(text);
    EXPECT_EQ(graph::Manifest::parse(changed, "weft.json").to_json(), text);
  });
}

/// The format has no checksums: other numbers, or other names of tensors, are another file.
TEST_F(MutatedFiles, SafetensorsAreTensorsOrRefused) {
  const auto path = root_ / "x.safetensors";
  graph::write_safetensors({{"x", x_}, {"y", at::ones({2, 3}, at::kHalf)}, {"m", at::ones({5}, at::kBool)}}, path);
  const auto bytes = content(path);
  mutate([&](FileMutation& mutation) {
    write(path, mutation.bytes(bytes));
    for (const auto& [name, tensor] : graph::read_safetensors(path)) {
      tensor.clone();
    }
  });
}

TEST_F(MutatedFiles, FoldersGiveTheSameResultOrAreRefused) {
  write_folder();
  const std::vector<std::string> names = {"rank_0.pt2", "rank_1.pt2", graph::Manifest::kFile};
  std::vector<std::string> files;
  for (const auto& name : names) {
    files.push_back(content(folder_ / name));
  }
  size_t next = 0;
  mutate([&](FileMutation& mutation) {
    const auto which = next++ % names.size();
    write(folder_ / names[(which + 1) % names.size()], files[(which + 1) % names.size()]);
    write(folder_ / names[(which + 2) % names.size()], files[(which + 2) % names.size()]);
    write(folder_ / names[which], mutation.bytes(files[which]));
    const auto manifest = graph::Manifest::load(folder_.string());
    std::vector<std::shared_ptr<const Program>> ranks;
    for (const int64_t rank : {0, 1}) {
      ranks.push_back(std::make_shared<const Program>(graph::read_rank(folder_.string(), manifest, rank)));
    }
    expect_result(graph::run_on_threads(ranks, manifest)->run({{"x", x_}})[0]);
  });
}

} // namespace mutated_files_test

} // namespace weft
