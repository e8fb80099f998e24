#include "weft/graph/pt2/calling_convention.h"

namespace weft::graph {

using nlohmann::json;

std::string read_calling_convention(const JsonField& root, const Program&) {
  const auto graph_module = root["graph_module"];
  json result;
  const auto keep = [&result](const JsonField& from, const char* key) {
    if (const auto field = from.find(key)) {
      result[key] = field->json();
    }
  };
  keep(graph_module, "module_call_graph");
  keep(graph_module, "metadata");
  keep(graph_module, "treespec_namedtuple_fields");
  keep(root, "opset_version");
  keep(root, "verifiers");
  keep(root, "guards_code");
  return result.dump();
}

} // namespace weft::graph
