#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// A folder in which a program's text is kept as it was after each pass: 01_tensor_parallel.txt, 02_... A number that is
/// missing is of a pass that was left out. The texts parse back (parse.h). They are there as soon as the pass is done, and
/// stay if a later one raises.
class PassDump {
 public:
  /// Makes the folder; raises for one that is there and not empty, so that nothing is overwritten.
  explicit PassDump(std::string folder);

  void write(size_t number, const std::string& pass, const Program& program) const;

 private:
  std::string folder_;
};

} // namespace weft::graph
