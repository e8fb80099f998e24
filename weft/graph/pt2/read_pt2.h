#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/pt2/archive.h"

namespace weft::graph {

struct ReadOptions {
  /// Reads the weights once and compares them with the file's checksums. Callers that need only sizes and dtypes can
  /// turn it off.
  bool verifies_weights = true;
};

/// The program in a file that torch.export.save wrote (torch 2.11 to 2.13). Its tensors are views of the file, which is
/// mapped into memory: apart from the verification, only the pages that are touched are read. A malformed or damaged
/// file raises an error that names the record and the path inside of it. The program's operators must be registered
/// before.
///
///   Program program = read_pt2("model.pt2");
Program read_pt2(const std::string& path, const ReadOptions& options = {});
/// The same for a file that is already open.
Program read_pt2(const Archive& archive, const ReadOptions& options = {});
/// The same for a file's bytes; errors call them `name`.
Program read_pt2_bytes(std::string bytes, std::string name = "<bytes>");

} // namespace weft::graph
