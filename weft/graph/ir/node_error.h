#pragma once

#include "weft/graph/ir/graph.h"

#include <exception>

namespace weft::graph {

/// "aten::new_ones for %new_ones in module layers.0, line 12 of model.py"; what a file does not say is left out.
std::string describe(const Node& node);

/// Whether an error is a defect of Weft and nothing that a user could mend: an internal assertion, or an exception of the
/// standard library other than those of files and memory.
bool is_defect(const std::exception& error);

/// "[weft] <where> ran into a defect: <what the error says>. Please report it to Weft, ...".
std::string defect_text(const std::string& where, const std::exception& error);

/// To be called where an error is being handled. Raises it again, as an error that names the node if it is a defect, and
/// with the node as context if it comes from a kernel of torch.
[[noreturn]] void rethrow_for(const Node& node);

/// What passes, readers and writers do to one node, so that whatever goes wrong names it.
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
