#pragma once

#include "weft/graph/ir/graph.h"

#include <exception>

namespace weft::graph {

/// "aten::new_ones for %new_ones in module layers.0, line 12 of model.py", without the parts that the file does not
/// state.
std::string describe(const Node& node);

/// Whether an error is a defect of Weft that a user cannot fix: an internal assertion, or an exception of the standard
/// library other than those of files and memory.
bool is_defect(const std::exception& error);

/// "[weft] <where> ran into a defect: <what the error says>. Please report it to Weft, ...".
std::string defect_text(const std::string& where, const std::exception& error);

/// Must be called in a catch block. Rethrows the error: as an error that names the node if it is a defect, and with the
/// node as context if a kernel of torch raised it.
[[noreturn]] void rethrow_for(const Node& node);

/// Runs what a pass, reader or writer does to one node, so that every error names the node.
///
///   for_node(*node, [&] { visit(node); });
template <class Fn>
decltype(auto) for_node(const Node& node, const Fn& fn) {
  try {
    return fn();
  } catch (...) {
    rethrow_for(node);
  }
}

} // namespace weft::graph
