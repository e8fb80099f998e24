#include "weft/graph/capture/captured_program.h"

#include "weft/graph/capture/recorded_operator.h"

#include <algorithm>
#include <unordered_set>

namespace weft::graph {

namespace {

/// The memory that calls write to, by their schemas.
std::unordered_set<const void*> written_memory(const Trace& trace, c10::ArrayRef<const TracedCall*> calls) {
  std::unordered_set<const void*> written;
  for (const auto* call : calls) {
    const auto* op = std::get_if<c10::OperatorHandle>(&call->target);
    for (size_t i = 0; op != nullptr && i < call->arguments.size(); ++i) {
      if (!is_written(op->schema().arguments()[i])) {
        continue;
      }
      const auto& argument = call->arguments[i];
      const auto note = [&](const Argument& each) {
        if (each.is_operand()) {
          written.insert(trace.values[call->operands[each.operand()]].memory);
        }
      };
      note(argument);
      std::for_each(argument.elements().begin(), argument.elements().end(), note);
    }
  }
  written.erase(nullptr);
  return written;
}

std::vector<bool> used_values(
    const Trace& trace,
    c10::ArrayRef<const TracedCall*> calls,
    c10::ArrayRef<ValueId> outputs) {
  std::vector<bool> used(trace.values.size());
  for (const auto* call : calls) {
    for (const auto operand : call->operands) {
      used[operand] = true;
    }
  }
  for (const auto output : outputs) {
    used[output] = true;
  }
  return used;
}

const char* numbered_name(InputKind kind) {
  switch (kind) {
    case InputKind::Parameter:
      return "parameter_";
    case InputKind::Buffer:
      return "buffer_";
    case InputKind::Constant:
      return "constant_";
    case InputKind::User:
      break;
  }
  return "input_";
}

/// The name of an input value, as in exported programs: p_layers_0_weight.
std::string value_name(InputKind kind, const std::string& target) {
  auto name = (kind == InputKind::Parameter ? "p_" : kind == InputKind::Buffer ? "b_" : "c_") + target;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

/// Builds a program from a trace.
class CaptureWriter {
 public:
  explicit CaptureWriter(const Trace& trace) : trace_(trace), values_(trace.values.size()) {}

  void add_input(const Outside& input) {
    const bool is_user = input.kind == InputKind::User;
    const auto name = is_user ? input.target : value_name(input.kind, input.target);
    auto* value = program_.graph->add_input(name, trace_.values[input.value].type);
    value->layout = trace_.values[input.value].layout;
    values_[input.value] = value;
    program_.inputs.push_back({.kind = input.kind, .target = is_user ? std::string() : input.target, .value = value});
    if (!is_user) {
      program_.tensors.emplace(input.target, input.tensor);
    }
  }

  void add_call(const TracedCall& call) {
    std::vector<Value*> operands;
    for (const auto operand : call.operands) {
      operands.push_back(values_[operand]);
    }
    OutputTypes outputs{.types = {}, .lists = call.lists};
    for (const auto& output : call.outputs) {
      outputs.types.push_back(output ? std::optional(trace_.values[*output].type) : std::nullopt);
    }
    const auto* node = program_.graph->insert(nullptr, call.target, call.arguments, operands, std::move(outputs));
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (const auto id = call.outputs[i]) {
        node->output(i)->layout = trace_.values[*id].layout;
        // An output that is an operand returned unchanged already has a value.
        values_[*id] = values_[*id] == nullptr ? node->output(i) : values_[*id];
      }
    }
  }

  Program finish(c10::ArrayRef<ValueId> outputs) {
    std::vector<Value*> results;
    for (size_t i = 0; i < outputs.size(); ++i) {
      results.push_back(values_[outputs[i]]);
      program_.outputs.push_back({.kind = OutputKind::User, .target = {}, .operand = i});
    }
    program_.graph->set_return(results);
    program_.mesh = trace_.mesh;
    return std::move(program_);
  }

 private:
  const Trace& trace_;
  std::vector<Value*> values_;
  Program program_;
};

/// Numbers the unnamed tensors in the order in which the function used them.
void add_unnamed(
    const Trace& trace,
    c10::ArrayRef<const TracedCall*> calls,
    const std::vector<bool>& is_used,
    std::vector<Outside>& all) {
  const auto written = written_memory(trace, calls);
  std::map<InputKind, size_t> counts;
  for (ValueId id = 0; id < trace.values.size(); ++id) {
    const auto& constant = trace.values[id].constant;
    if (!constant.defined() || !is_used[id]) {
      continue;
    }
    const auto kind = constant.is_leaf() && constant.requires_grad() ? InputKind::Parameter
        : written.contains(trace.values[id].memory)                  ? InputKind::Buffer
                                                                     : InputKind::Constant;
    all.push_back({id, kind, numbered_name(kind) + std::to_string(counts[kind]++), constant});
  }
}

} // namespace

Program program_of(const Trace& trace, std::vector<Outside> outside, c10::ArrayRef<ValueId> outputs) {
  const auto calls = trace.program();
  const auto is_used = used_values(trace, calls, outputs);
  add_unnamed(trace, calls, is_used, outside);
  // The order of exported programs: parameters, buffers, constants, user inputs.
  std::stable_sort(outside.begin(), outside.end(), [](const Outside& a, const Outside& b) { return a.kind < b.kind; });
  CaptureWriter writer(trace);
  for (const auto& input : outside) {
    if (input.kind == InputKind::User || is_used[input.value]) {
      writer.add_input(input);
    }
  }
  for (const auto* call : calls) {
    writer.add_call(*call);
  }
  return writer.finish(outputs);
}

} // namespace weft::graph
