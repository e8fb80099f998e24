#pragma once

#include "weft/graph/ir/program.h"
#include "weft/graph/pt2/archive.h"

namespace weft::graph {

struct ReadOptions {
  /// Weights are read once and compared with the file's checksums. Not needed by those who ask for sizes and dtypes alone.
  bool verifies_weights = true;
};

/// The program in a file that torch.export.save wrote (torch 2.11 to 2.13). Its tensors are views of the file, which is
/// mapped into memory: beside being verified, only what is touched is read. A file that is not what it should be, or whose
/// bytes were changed since it was written, raises, naming the record and the place inside of it; operators must be
/// registered before.
///
///   Program program = read_pt2("model.pt2");
Program read_pt2(const std::string& path, const ReadOptions& options = {});
/// The same of a file that is open already.
Program read_pt2(const Archive& archive, const ReadOptions& options = {});
/// The same of a file's bytes; `name` is what errors call them.
Program read_pt2_bytes(std::string bytes, std::string name = "<bytes>");

} // namespace weft::graph
