#pragma once

#include "weft/core/device_mesh.h"
#include "weft/graph/ir/graph.h"

#include <map>

namespace weft::graph {

enum class InputKind : uint8_t { Parameter, Buffer, Constant, User };

/// What an input of the graph is.
struct Input {
  InputKind kind = InputKind::User;
  std::string target;        // of a parameter, buffer or constant: its name, "layers.0.wq.weight"
  bool is_persistent = true; // a buffer that is part of the state dict
  /// Of a user input that is no value but always the same.
  std::optional<c10::IValue> constant = std::nullopt;
  Value* value = nullptr;
};

enum class OutputKind : uint8_t { User, BufferMutation, ParameterMutation, InputMutation };

/// What an output of the graph is: the return's operand `operand`, or a constant.
struct Output {
  OutputKind kind = OutputKind::User;
  std::string target; // of a mutation: the buffer's, the parameter's or the user input's name
  std::optional<c10::IValue> constant = std::nullopt;
  size_t operand = 0;
};

/// A size that is known when the program is called.
struct Symbol {
  std::optional<int64_t> hint; // what it was when the program was exported
  std::optional<int64_t> min;
  std::optional<int64_t> max;
};

/// A graph, what its inputs and outputs are, and the tensors that belong to it.
struct Program {
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
  std::vector<Input> inputs;   // of every input of the graph, and of constant user inputs, in order
  std::vector<Output> outputs; // in order
  std::map<std::string, Symbol> symbols;
  /// Parameters, buffers and constants by name. Read from a file they are its memory map: only what is touched is read.
  std::map<std::string, at::Tensor> tensors;
  /// The mesh that the layouts of values are of; none before the program is sharded.
  std::optional<DeviceMesh> mesh;
  /// How user inputs and outputs nest (in_spec and out_spec of torch.export), as JSON; kept as it is.
  std::string calling_convention;
};

} // namespace weft::graph
