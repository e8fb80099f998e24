#pragma once

#include <functional>
#include <string>
#include <vector>

namespace weft::graph {

/// A pattern for a module's path: replaces numbers between dots by `*`, from the left, if all paths that match then are
/// among the `same`.
///
///   widened("layers.0.mlp.2", paths, is_rowwise)      // "layers.*.mlp.2"
std::string widened(
    const std::string& path,
    const std::vector<std::string>& paths,
    const std::function<bool(const std::string&)>& same);

} // namespace weft::graph
