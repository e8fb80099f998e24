#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace weft::testing {

/// A zip file of these records, as torch writes it, below one folder.
std::string zip_file(const std::vector<std::pair<std::string, std::string>>& records);

/// What an exported program's file holds, to be changed before it is made.
struct Pt2File {
  nlohmann::json model;
  nlohmann::json weights;
  nlohmann::json constants;
  std::map<std::string, std::string> records; // all others

  std::string bytes() const;

  nlohmann::json& graph_module() {
    return model["graph_module"];
  }
  nlohmann::json& graph() {
    return graph_module()["graph"];
  }
  nlohmann::json& node(size_t index) {
    return graph()["nodes"][index];
  }
  /// A node of one tensor, "float32[s77, 3]", behind the others.
  void add_node(const std::string& target, const nlohmann::json& inputs, const std::string& output);
};

/// relu(linear(x, weight, bias)) of x: float32[s77, 2], where s77 was 4 and is 2 to 64.
Pt2File linear_pt2();

/// {"name": name, "arg": argument, "kind": 1}
nlohmann::json named_argument(const std::string& name, const nlohmann::json& argument);
/// {"as_tensor": {"name": name}}
nlohmann::json tensor_argument(const std::string& name);
/// What files say of a float32 tensor of these sizes, contiguous; a text is an expression.
nlohmann::json tensor_meta(const std::vector<nlohmann::json>& sizes, const std::vector<nlohmann::json>& strides);

} // namespace weft::testing
