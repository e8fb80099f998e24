#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/pt2/archive.h"

namespace weft::graph {

/// The tensors of a program as views of the file: parameters, buffers and constants. Tensors that shared memory when
/// they were written share it again. Their bytes are read only for the verification.
std::map<std::string, at::Tensor> read_weights(const Archive& archive, const std::string& model, bool verifies = true);

} // namespace weft::graph
