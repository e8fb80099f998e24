#include "weft/checkpoint/saved_state.h"

#include "weft/core/dtype_text.h"

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

void check_mesh(const SavedTensor& tensor) {
  for (const auto rank : tensor.spec ? tensor.spec->mesh().ranks() : c10::IntArrayRef()) {
    const bool has = std::find(tensor.holders.begin(), tensor.holders.end(), rank) != tensor.holders.end();
    TORCH_CHECK_VALUE(
        has, "[save] every rank of the mesh of '", tensor.name, "' must save it, but rank ", rank, " does not (",
        *tensor.spec, ").");
  }
}

} // namespace

std::string description_of(const LocalState& state) {
  Json tensors = Json::object();
  for (const auto& [name, tensor] : state.tensors) {
    if (tensor.spec) {
      tensors[name] = tensor.spec->to_string();
      TORCH_CHECK_VALUE(
          !tensor.spec->layout().has_partial(), "[save] ranks must hold values and not terms of them, but got '", name,
          "', ", *tensor.spec, ". Redistribute it first.");
    } else {
      tensors[name] = {{"dtype", dtype_text(tensor.local.scalar_type())}, {"shape", tensor.local.sizes().vec()}};
    }
  }
  Json values = Json::object();
  for (const auto& [name, text] : state.values) {
    values[name] = Json::parse(text);
  }
  return Json{{"tensors", std::move(tensors)}, {"values", std::move(values)}}.dump();
}

SavedState merged_state(const std::vector<std::string>& descriptions, int64_t world_size) {
  SavedState all;
  std::map<std::string, std::pair<Json, size_t>> seen; // the description and its rank
  std::map<std::string, SavedTensor> tensors;
  for (size_t i = 0; i < descriptions.size(); ++i) {
    const auto description = Json::parse(descriptions[i]);
    for (const auto& [name, json] : description.at("tensors").items()) {
      const auto [found, is_new] = seen.try_emplace(name, json, i);
      TORCH_CHECK_VALUE(
          found->second.first == json, "[save] '", name, "' must be the same on all ranks that have it, but rank ",
          found->second.second, " has ", found->second.first.dump(), " and rank ", i, " has ", json.dump(),
          ". Save different tensors under different names.");
      auto& tensor = tensors[name];
      if (is_new) {
        tensor.name = name;
        if (json.is_string()) {
          tensor.spec = TensorSpec::parse(json.get<std::string>());
          tensor.dtype = tensor.spec->dtype();
          tensor.sizes = c10::DimVector(tensor.spec->sizes());
        } else {
          tensor.dtype = parse_dtype(json.at("dtype").get<std::string>());
          tensor.sizes = c10::DimVector(c10::IntArrayRef(json.at("shape").get<std::vector<int64_t>>()));
        }
      }
      tensor.holders.push_back(static_cast<int64_t>(i));
    }
    for (const auto& [name, json] : description.at("values").items()) {
      const auto [found, is_new] = all.values.try_emplace(name, json.dump());
      TORCH_CHECK_VALUE(
          is_new || found->second == json.dump(), "[save] the value '", name,
          "' must be the same on all ranks that have it, but it is ", found->second.substr(0, 80), " and, on rank ", i,
          ", ", json.dump().substr(0, 80), ". Save different values under different names.");
    }
  }
  for (auto& [name, tensor] : tensors) {
    TORCH_CHECK_VALUE(
        !all.values.contains(name), "[save] '", name, "' must be a tensor or a value on all ranks, but it is both.");
    if (descriptions.size() == 1) {
      tensor.holders.resize(world_size);
      std::iota(tensor.holders.begin(), tensor.holders.end(), 0);
    }
    check_mesh(tensor);
    all.tensors.push_back(std::move(tensor));
  }
  return all;
}

} // namespace weft
