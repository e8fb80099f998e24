#include "tests/support/pt2_file.h"

#include <caffe2/serialize/inline_container.h>

namespace weft::testing {

using nlohmann::json;

namespace {

constexpr const char* kBatch = "Symbol('s77', positive=True, integer=True)";

json size_field(const json& size) {
  if (size.is_string()) {
    return {{"as_expr", {{"expr_str", size}, {"hint", {{"as_int", 4}}}}}};
  }
  return {{"as_int", size}};
}

json payload(const std::string& path, const json& meta) {
  return {{"path_name", path}, {"is_param", true}, {"use_pickle", false}, {"tensor_meta", meta}};
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

} // namespace

std::string zip_file(const std::vector<std::pair<std::string, std::string>>& records) {
  std::string bytes;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&bytes](const void* data, size_t size) {
      bytes.append(static_cast<const char*>(data), size);
      return size;
    });
    for (const auto& [name, data] : records) {
      writer.writeRecord(name, data.data(), data.size());
    }
    writer.writeEndOfFile();
  }
  return bytes;
}

std::string Pt2File::bytes() const {
  std::vector<std::pair<std::string, std::string>> all(records.begin(), records.end());
  const auto add = [&all](const char* name, const json& text) {
    if (!text.is_null()) {
      all.emplace_back(name, text.dump());
    }
  };
  add("data/weights/model_weights_config.json", weights);
  add("data/constants/model_constants_config.json", constants);
  add("models/model.json", model);
  return zip_file(all);
}

void Pt2File::add_node(const std::string& target, const json& inputs, const std::string& output) {
  graph()["nodes"].push_back(
      {{"target", target},
       {"inputs", inputs},
       {"outputs", json::array({tensor_argument(output)})},
       {"metadata", json::object()}});
  graph()["tensor_values"][output] = tensor_meta({kBatch, 3}, {3, 1});
}

json named_argument(const std::string& name, const json& argument) {
  return {{"name", name}, {"arg", argument}, {"kind", 1}};
}

json tensor_argument(const std::string& name) {
  return {{"as_tensor", {{"name", name}}}};
}

json tensor_meta(const std::vector<json>& sizes, const std::vector<json>& strides) {
  json size_fields = json::array();
  json stride_fields = json::array();
  for (const auto& size : sizes) {
    size_fields.push_back(size_field(size));
  }
  for (const auto& stride : strides) {
    stride_fields.push_back(size_field(stride));
  }
  return {
      {"dtype", 7},
      {"sizes", size_fields},
      {"requires_grad", false},
      {"device", {{"type", "cpu"}, {"index", nullptr}}},
      {"strides", stride_fields},
      {"storage_offset", {{"as_int", 0}}},
      {"layout", 7}};
}

Pt2File linear_pt2() {
  Pt2File file;
  const auto parameter = [](const char* name, const char* target) -> json {
    return {{"parameter", {{"arg", {{"name", name}}}, {"parameter_name", target}}}};
  };
  file.model = {
      {"graph_module",
       {{"graph",
         {{"inputs", json::array({tensor_argument("w"), tensor_argument("b"), tensor_argument("x")})},
          {"outputs", json::array()},
          {"nodes", json::array()},
          {"tensor_values",
           {{"w", tensor_meta({3, 2}, {2, 1})}, {"b", tensor_meta({3}, {1})}, {"x", tensor_meta({kBatch, 2}, {2, 1})}}},
          {"sym_int_values", json::object()},
          {"sym_float_values", json::object()},
          {"sym_bool_values", json::object()},
          {"is_single_tensor_return", false}}},
        {"signature",
         {{"input_specs",
           json::array(
               {parameter("w", "wq.weight"),
                parameter("b", "wq.bias"),
                {{"user_input", {{"arg", tensor_argument("x")}}}}})},
          {"output_specs", json::array({{{"user_output", {{"arg", tensor_argument("relu")}}}}})}}},
        {"module_call_graph", json::array()}}},
      {"opset_version", {{"aten", 10}}},
      {"range_constraints", {{"s77", {{"min_val", 2}, {"max_val", 64}}}}},
      {"schema_version", {{"major", 8}, {"minor", 20}}},
      {"verifiers", json::array({"TRAINING"})},
      {"torch_version", "2.13.0"}};
  file.add_node(
      "torch.ops.aten.linear.default",
      json::array(
          {named_argument("input", tensor_argument("x")), named_argument("weight", tensor_argument("w")),
           named_argument("bias", tensor_argument("b"))}),
      "linear");
  file.node(0)["metadata"]["nn_module_stack"] = "L__self__,,model.Model;L__self__wq,wq,torch.nn.modules.linear.Linear";
  file.add_node(
      "torch.ops.aten.relu.default", json::array({named_argument("self", tensor_argument("linear"))}), "relu");
  file.graph()["outputs"] = json::array({tensor_argument("relu")});
  file.weights = {
      {"config",
       {{"wq.weight", payload("weight_0", tensor_meta({3, 2}, {2, 1}))},
        {"wq.bias", payload("weight_1", tensor_meta({3}, {1}))}}}};
  file.constants = {{"config", json::object()}};
  file.records = {
      {"archive_format", "pt2"},
      {"archive_version", "0"},
      {"data/weights/weight_0", floats({1, 2, 3, 4, 5, 6})},
      {"data/weights/weight_1", floats({10, 20, 30})}};
  return file;
}

} // namespace weft::testing
