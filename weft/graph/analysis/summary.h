#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// The cost of one call of a program that tensor_parallel made parallel. Symbols have the values of the export.
struct Summary {
  std::map<std::string, int64_t> collectives; // by name: all_reduce, all_gather, reduce_scatter, all_to_all
  int64_t overlapped = 0;                     // of these, those that overlap matmuls
  int64_t bytes = 0;                          // received by the rank that receives the most
  std::vector<int64_t> parameters_per_rank;   // elements
  int64_t parameters = 0;                     // of the global program
  std::map<std::string, int64_t> fallbacks;   // operators without a rule, which run on replicated tensors
  int64_t nodes = 0;

  /// One object. Of the numbers of parameters it has the minimum, the maximum, and all of them if there are few ranks.
  std::string to_json() const;
  /// A few lines of text.
  std::string to_string() const;
};

Summary summarize(const Program& program);

/// The bytes that the rank that receives the most gets in a step, or in a collective that overlaps matmuls.
int64_t received_bytes(const Program& program, const Node& step);

/// Seconds that all redistributions of one call take, estimated by the link model.
double communication_seconds(const Program& program);

/// The values of the symbols when the program was exported; 1 if they are not known.
Size::Values hints(const Program& program);

} // namespace weft::graph
