#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// What a program that tensor_parallel made parallel costs, per call: sizes of symbols are what they were at the export.
struct Summary {
  std::map<std::string, int64_t> collectives; // by name: all_reduce, all_gather, reduce_scatter, all_to_all
  int64_t overlapped = 0;                     // of these, those that run beside matmuls
  int64_t bytes = 0;                          // received by the rank that receives most
  std::vector<int64_t> parameters_per_rank;   // elements
  int64_t parameters = 0;                     // of the whole program
  std::map<std::string, int64_t> fallbacks;   // operators that run on replicated tensors, for want of a rule
  int64_t nodes = 0;

  /// One object; of the numbers of parameters the least, the most, and all where the ranks are few.
  std::string to_json() const;
  /// A few lines for people.
  std::string to_string() const;
};

Summary summarize(const Program& program);

/// Bytes that the rank with the most to receive gets in the node of a step, or of a collective that runs beside matmuls.
int64_t received_bytes(const Program& program, const Node& step);

/// Seconds that all redistributions of a call take, by the link model.
double communication_seconds(const Program& program);

/// The numbers that symbols had when the program was exported; 1 where that is not known.
Size::Values hints(const Program& program);

} // namespace weft::graph
