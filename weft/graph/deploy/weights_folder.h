#pragma once

#include "weft/checkpoint/key_map.h"
#include "weft/graph/ir/program.h"

namespace weft::graph {

/// Replaces the parameters and the persistent buffers of a program by those of a folder of safetensors files, as Hugging Face's
/// libraries write it, or of a checkpoint of weft::save. What needs no conversion is a view of its file, mapped into memory. Raises
/// with the names that the folder lacks, and for other shapes; returns the names that the program does not have.
///
///   auto program = read_pt2("model.pt2");
///   use_weights(program, "llama-3-8b");
std::vector<std::string> use_weights(Program& program, const std::string& folder, const KeyMap& map = {});

} // namespace weft::graph
