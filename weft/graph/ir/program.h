#pragma once

#include "weft/core/device_mesh.h"
#include "weft/graph/ir/graph.h"

#include <map>

namespace weft::graph {

enum class InputKind : uint8_t { Parameter, Buffer, Constant, User };

/// The kind of an input of the graph.
struct Input {
  InputKind kind = InputKind::User;
  std::string target;        // of a parameter, buffer or constant: its name, "layers.0.wq.weight"
  bool is_persistent = true; // whether a buffer is in the state dict
  /// The value of a user input that is a constant. Such an input is no value of the graph.
  std::optional<c10::IValue> constant = std::nullopt;
  Value* value = nullptr;
};

enum class OutputKind : uint8_t { User, BufferMutation, ParameterMutation, InputMutation };

/// The kind of an output of the graph, which is operand `operand` of the return, or a constant.
struct Output {
  OutputKind kind = OutputKind::User;
  std::string target; // of a mutation: the buffer's, the parameter's or the user input's name
  std::optional<c10::IValue> constant = std::nullopt;
  size_t operand = 0;
};

/// A size that is known only when the program is called.
struct Symbol {
  std::optional<int64_t> hint; // its value when the program was exported
  std::optional<int64_t> min;
  std::optional<int64_t> max;
};

/// A graph with the meaning of its inputs and outputs, and the tensors that belong to it.
struct Program {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::vector<Input> inputs;   // the inputs of the graph and the constant user inputs, in order
  std::vector<Output> outputs; // in order
  std::map<std::string, Symbol> symbols;
  /// Parameters, buffers and constants by name. Tensors of a file are views of its memory map: only the pages that are
  /// touched are read.
  std::map<std::string, at::Tensor> tensors;
  /// The mesh of the layouts; none before the program is sharded.
  std::optional<DeviceMesh> mesh;
  /// How user inputs and outputs nest (in_spec and out_spec of torch.export), as JSON; kept unchanged.
  std::string calling_convention;
};

} // namespace weft::graph
