#pragma once

#include "weft/graph/analysis/summary.h"
#include "weft/graph/overlap/overlap_decision.h"

namespace weft::graph {

/// What a program that tensor_parallel made parallel does, for people: every node with its placements, what was
/// redistributed for it, how many bytes that takes, and why.
struct Explanation {
  /// A value as a node takes or gives it.
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
    std::string reason; // why it is run so; of a redistribution, for whom
    std::string change; // of a redistribution, or of one that runs beside matmuls: "tp: {P(sum)} -> {R}"
    int64_t bytes = 0;  // that a rank receives
    int64_t chunks = 0; // of a collective that runs beside matmuls
    bool communicates = false;
    bool is_fallback = false;
  };
  /// A parameter, buffer, constant or user input.
  struct Given {
    std::string kind; // "parameter", "buffer", "constant", "input"
    std::string name; // of a weight, as in the state dict
    Tensor tensor;
  };
  /// What happens in a module, in those inside it too.
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
  OverlapDecisions overlap;    // of the collectives that could run beside matmuls
  Summary summary;

  /// Grouped by module, with totals; of `node` alone where one is named: a value's name, or a module's path.
  std::string to_string(const std::string& node = {}) const;
  /// The same as one object.
  std::string to_json(const std::string& node = {}) const;
};

/// `overlap`: what micro_pipeline decided, to be shown beside.
Explanation explain(const Program& program, OverlapDecisions overlap = {});

} // namespace weft::graph
