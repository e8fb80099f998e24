#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// The program in a file that torch.export.save wrote (torch 2.11 to 2.13). Its tensors are views of the file, which is
/// mapped into memory: only what is touched is read. A file that is not what it should be raises, naming the record and
/// the place inside of it; operators must be registered before.
///
///   Program program = read_pt2("model.pt2");
Program read_pt2(const std::string& path);
/// The same of a file's bytes; `name` is what errors call them.
Program read_pt2_bytes(std::string bytes, std::string name = "<bytes>");

} // namespace weft::graph
