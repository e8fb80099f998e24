#include "weft/graph/pt2/write_pt2.h"

#include "weft/graph/pt2/calling_convention.h"
#include "weft/graph/pt2/new_file.h"
#include "weft/graph/pt2/write_graph.h"
#include "weft/graph/pt2/write_weights.h"

#include <caffe2/serialize/inline_container.h>
#include <torch/version.h>

namespace weft::graph {

using nlohmann::json;

namespace {

constexpr const char* kModel = "model";
constexpr int kSchemaMajor = 8;
constexpr int kSchemaMinor = 20;
constexpr int kZipVersion = 6; // the version that torch.export.save writes

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
  result["range_constraints"] = types.ranges(); // needs the symbols that were written above
  return result;
}

/// The output of the zip writer. Keeps the first error until the caller asks for it: the writer ends its file in its
/// destructor, which must not raise and may run while another error is propagated.
class ZipTarget {
 public:
  explicit ZipTarget(NewFile& file) : file_(file) {}

  size_t write(const void* data, size_t size) {
    if (!error_) {
      try {
        file_.write(data, size);
      } catch (...) {
        error_ = std::current_exception();
      }
    }
    return size;
  }
  void check() const {
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  NewFile& file_;
  std::exception_ptr error_;
};

} // namespace

void write_pt2(const Program& program, const std::string& path, const WriteOptions& options) {
  check_plain(program);
  // Written before the weights, so that a program that cannot be written raises at once.
  const auto text = write_program(program).dump();
  NewFile file("write_pt2", path);
  ZipTarget target(file);
  {
    caffe2::serialize::PyTorchStreamWriter writer(
        [&target](const void* data, size_t size) { return target.write(data, size); });
    writer.setMinVersion(kZipVersion);
    const WriteRecord write = [&](const std::string& name, const void* data, size_t size) {
      writer.writeRecord(name, size == 0 ? "" : data, size);
      target.check();
    };
    write_weights(program, kModel, options, write);
    write(c10::str("models/", kModel, ".json"), text.data(), text.size());
    // The example inputs of the export are not kept.
    write(c10::str("data/sample_inputs/", kModel, ".pt"), nullptr, 0);
    write("archive_format", "pt2", 3);
    write("archive_version", "0", 1);
    writer.writeEndOfFile();
  }
  target.check();
  file.complete();
}

} // namespace weft::graph
