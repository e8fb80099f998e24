#pragma once

#include "weft/graph/analysis/summary.h"
#include "weft/graph/overlap/overlap_decision.h"

namespace weft::graph {

/// A report on a program that tensor_parallel made parallel: every node with its placements, the redistributions of its
/// operands, their bytes, and the reasons.
struct Explanation {
  /// An operand or an output of a node.
  struct Tensor {
    std::string name;
    std::string type;   // "f32[4,16]"; "int" for a number
    std::string layout; // "{S(1)}"; empty for a number
  };
  struct Row {
    std::string name;   // of its first output
    std::string target; // "aten::linear", "all_reduce", "return"
    std::string module; // "layers.0.attention.wq"
    std::vector<Tensor> operands;
    std::vector<Tensor> outputs;
    std::string reason; // why it has this sharding; of a redistribution, which calls use it
    std::string change; // of a redistribution, also of one that overlaps matmuls: "tp: {P(sum)} -> {R}"
    int64_t bytes = 0;  // that a rank receives
    int64_t chunks = 0; // of a collective that overlaps matmuls
    bool communicates = false;
    bool is_fallback = false;
  };
  /// A parameter, buffer, constant or user input.
  struct Given {
    std::string kind; // "parameter", "buffer", "constant", "input"
    std::string name; // of a weight, as in the state dict
    Tensor tensor;
  };
  /// The totals of a module, including the modules inside it.
  struct Module {
    std::string path;
    std::string type;
    int64_t nodes = 0;
    int64_t collectives = 0;
    int64_t bytes = 0;
  };

  std::string mesh;
  std::vector<Given> given;
  std::vector<Row> rows;       // in the order of the program
  std::vector<Module> modules; // in the order of appearance, the model itself first, "" for its path
  OverlapDecisions overlap;    // of the collectives that could overlap matmuls
  Summary summary;

  /// Grouped by module, with totals; only `node` if it is given: the name of a value, or the path of a module.
  std::string to_string(const std::string& node = {}) const;
  /// The same as one JSON object.
  std::string to_json(const std::string& node = {}) const;
};

/// `overlap`: the decisions of micro_pipeline, which the report includes.
Explanation explain(const Program& program, OverlapDecisions overlap = {});

} // namespace weft::graph
