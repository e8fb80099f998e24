#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/pt2/archive.h"

namespace weft::graph {

/// The tensors that belong to a program, as views of the file: parameters and persistent buffers, and constants and other
/// buffers. Tensors that share memory when they are written share it here. Their bytes are read only to be verified.
std::map<std::string, at::Tensor> read_weights(const Archive& archive, const std::string& model, bool verifies = true);

} // namespace weft::graph
