#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A folder with the program's text after each pass: 01_tensor_parallel.txt, 02_... The number of a skipped pass is
/// missing. The texts parse back (parse.h). Each is written as soon as its pass is done, and stays if a later pass
/// raises.
class PassDump {
 public:
  /// Creates the folder; raises for an existing folder that is not empty, so that nothing is overwritten.
  explicit PassDump(std::string folder);

  void write(size_t number, const std::string& pass, const Program& program) const;

 private:
  std::string folder_;
};

} // namespace weft::graph
