#include "weft/graph/pt2/write_pt2.h"

#include "weft/graph/pt2/calling_convention.h"
#include "weft/graph/pt2/write_graph.h"
#include "weft/graph/pt2/write_weights.h"

#include <caffe2/serialize/inline_container.h>
#include <fcntl.h>
#include <torch/version.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace weft::graph {

using nlohmann::json;

namespace {

constexpr const char* kModel = "model";
constexpr int kSchemaMajor = 8;
constexpr int kSchemaMinor = 20;
constexpr int kZipVersion = 6; // what torch.export.save asks for

/// A file that takes its name when it is complete; until then, or if it never is, nothing is there.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path) {
    static std::atomic<int> count = 0;
    temporary_ = c10::str(path, ".", ::getpid(), ".", ++count, ".part");
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    check(file_ >= 0, "cannot be created");
  }
  ~NewFile() {
    if (file_ >= 0) {
      ::close(file_);
      ::unlink(temporary_.c_str());
    }
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, size_t size) {
    const auto* at = static_cast<const char*>(data);
    while (size > 0) {
      // A call takes at most about 2 GiB.
      const auto written = ::write(file_, at, std::min(size, size_t{1} << 30));
      if (written < 0 && errno == EINTR) {
        continue;
      }
      check(written > 0, "cannot be written");
      at += written;
      size -= static_cast<size_t>(written);
    }
  }

  void complete() {
    check(
        ::close(std::exchange(file_, -1)) == 0 && ::rename(temporary_.c_str(), path_.c_str()) == 0,
        "cannot be written");
  }

 private:
  void check(bool condition, const char* what) {
    if (!condition) {
      const auto* reason = std::strerror(errno);
      ::unlink(temporary_.c_str());
      TORCH_CHECK_VALUE(false, "[write_pt2] ", path_, ": ", what, ": ", reason, ".");
    }
  }

  std::string path_;
  std::string temporary_;
  int file_ = -1;
};

void check_plain(const Program& program) {
  TORCH_CHECK_VALUE(
      program.graph->return_node() != nullptr,
      "[write_pt2] a complete program is required, but its graph does not return.");
  const auto check = [](const Value* value) {
    TORCH_CHECK_VALUE(
        value == nullptr || !value->layout,
        "[write_pt2] a program of a rank is required, but got one whose tensors have layouts: %", value->name(),
        ". Write what localize gives.");
  };
  for (const auto* input : program.graph->inputs()) {
    check(input);
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    for (const auto* output : node->outputs()) {
      check(output);
    }
  }
}

json write_program(const Program& program) {
  const WrittenNames names(program);
  TypeWriter types(program.symbols);
  auto convention = calling_convention_of(program);
  json result = {
      {"graph_module",
       {{"graph", write_graph(program, names, types)},
        {"signature", write_signature(program, names)},
        {"module_call_graph", convention["module_call_graph"]},
        {"metadata", convention["metadata"]},
        {"treespec_namedtuple_fields", convention["treespec_namedtuple_fields"]}}},
      {"opset_version", convention["opset_version"]},
      {"schema_version", {{"major", kSchemaMajor}, {"minor", kSchemaMinor}}},
      {"verifiers", convention["verifiers"]},
      {"torch_version", TORCH_VERSION},
      {"guards_code", convention["guards_code"]}};
  result["range_constraints"] = types.ranges(); // of what was written above
  return result;
}

} // namespace

void write_pt2(const Program& program, const std::string& path) {
  check_plain(program);
  // Before the weights: what cannot be written is known at once.
  const auto text = write_program(program).dump();
  NewFile file(path);
  {
    caffe2::serialize::PyTorchStreamWriter writer([&file](const void* data, size_t size) {
      file.write(data, size);
      return size;
    });
    writer.setMinVersion(kZipVersion);
    const WriteRecord write = [&writer](const std::string& name, const void* data, size_t size) {
      writer.writeRecord(name, size == 0 ? "" : data, size);
    };
    write_weights(program, kModel, write);
    write(c10::str("models/", kModel, ".json"), text.data(), text.size());
    // What the program was exported with is not kept.
    write(c10::str("data/sample_inputs/", kModel, ".pt"), nullptr, 0);
    write("archive_format", "pt2", 3);
    write("archive_version", "0", 1);
    writer.writeEndOfFile();
  }
  file.complete();
}

} // namespace weft::graph
