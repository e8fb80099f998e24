#pragma once

#include <string>
#include <vector>

namespace weft::nn {

/// The names, at most three, that differ from `wanted` by the fewest letters, nearest first. Numbers between dots count
/// as `*`, so that the layers of a model count as one name.
///
///   nearest("layers.*.attn.wq", {"layers.0.attention.wq", "layers.1.attention.wq"});   // {"layers.*.attention.wq"}
std::vector<std::string> nearest(const std::string& wanted, const std::vector<std::string>& names);

} // namespace weft::nn
