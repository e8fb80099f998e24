#pragma once

#include "weft/checkpoint/stored_tensors.h"

#include <memory>
#include <set>
#include <string_view>

namespace weft {

struct KeyExpression;

/// Says of which stored tensors a model's tensors are made, where names or shapes differ. It has a JSON form: patterns of the
/// model's names, in which each * stands for one or more characters, and what they are made of, in which the first * is the text of
/// the pattern's first, and so on. The first pattern that fits counts; a name that none fits is that of the stored tensor.
///
///   {"model.layers.*.attn.qkv.weight": {"concat": ["model.layers.*.attn.q.weight", "model.layers.*.attn.k.weight",
///                                                  "model.layers.*.attn.v.weight"], "dim": 0},
///    "layers.*.k.weight": {"from": "layers.*.qkv.weight", "dim": 0, "sizes": [4, 1, 1], "part": 1},
///    "h.*.fc.weight": {"from": "h.*.fc.weight", "transpose": true},
///    "lm_head.weight": "embed.weight",
///    "transformer.*": "*"}
///
/// "sizes" are relative: the dim is divided in these proportions. A transposed tensor has two dims. Each "from", and each member of a
/// "concat", may be such an expression again. Nothing is computed: the result says where in the files the elements are.
class KeyMap {
 public:
  KeyMap() = default;
  static KeyMap parse(std::string_view json);
  /// Of a file.
  static KeyMap load(const std::string& path);

  /// The tensor of this name of the model, made of stored ones; none if one that it needs is not there. The names of those that
  /// it is made of are added to `used`.
  std::optional<StoredTensor> find(const StoredTensors& stored, const std::string& name, std::set<std::string>& used)
      const;

 private:
  std::vector<std::pair<std::string, std::shared_ptr<const KeyExpression>>> entries_;
};

/// The tensors of a model inside of stored ones, under the model's names, and the names that have no counterpart on the other side.
struct MatchedKeys {
  StoredTensors stored;
  std::vector<std::string> missing;    // of the model
  std::vector<std::string> unexpected; // of the stored tensors
};

/// Finds the tensors of a model. `names` lists the names of each: several where it is tied, of which the first counts in the result
/// and any may be stored.
MatchedKeys match_keys(
    const StoredTensors& stored,
    const std::vector<std::vector<std::string>>& names,
    const KeyMap& map);

} // namespace weft
