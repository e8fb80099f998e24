#pragma once

#include "weft/checkpoint/key_map.h"
#include "weft/checkpoint/load_files.h"

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace weft::nn {

struct LoadPretrainedOptions {
  KeyMap key_map = {};
  /// Raise for names that only the model or only the folder has; otherwise they are listed in the result.
  bool strict = true;
  /// Where plain tensors on meta get their memory. Distributed ones get theirs on the device of their mesh.
  c10::Device device = c10::kCPU;
  LoadOptions load = {};
};

struct LoadedKeys {
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
};

/// Fills a module from a folder of safetensors files as Hugging Face's libraries write it, or from a checkpoint of weft::save. Each
/// rank reads its shards alone, converted to the dtype of the parameters. A module on meta gets its memory: build it under OnMeta, shard
/// it, then load it, so that no rank ever holds more than its shards.
///
///   load_pretrained(*model, "llama-3-8b", {.key_map = KeyMap::load("keys.json")});
///
/// Of a tied parameter any of its names may be stored. Parameters that are missing stay as they were, on meta perhaps.
LoadedKeys load_pretrained(
    torch::nn::Module& module,
    const std::string& folder,
    const LoadPretrainedOptions& options = {});

} // namespace weft::nn
