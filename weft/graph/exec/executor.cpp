#include "weft/graph/exec/executor.h"

#include "weft/comm/world/current_world.h"
#include "weft/graph/analysis/memory_writes.h"
#include "weft/graph/exec/input_check.h"
#include "weft/graph/exec/mutation.h"
#include "weft/graph/exec/prepare.h"
#include "weft/graph/exec/random_source.h"
#include "weft/graph/exec/weights.h"
#include "weft/graph/ir/node_error.h"

#include <c10/core/InferenceMode.h>

#include <atomic>

namespace weft::graph {

namespace {

DeviceMesh checked_mesh(const Program& program, const DeviceMesh& given) {
  if (given.defined()) {
    TORCH_CHECK_VALUE(
        !program.mesh || (program.mesh->shape() == given.shape() && program.mesh->names() == given.names()),
        "[Executor] the program's mesh is required, ", program.mesh->to_string(), ", but got ", given, ".");
    return given;
  }
  if (!program.mesh || !has_collectives(*program.graph)) {
    return {};
  }
  const auto& mesh = *program.mesh;
  return DeviceMesh(current_world(), mesh.device_type(), mesh.shape(), mesh.ranks(), mesh.names());
}

} // namespace

struct Executor::State {
  State(std::shared_ptr<const Program> program, const DeviceMesh& mesh, const ExecutorOptions& options);

  std::vector<c10::IValue> run(std::vector<c10::IValue> inputs);
  void run_steps();
  /// Clears the state of a run.
  void reset_frame();

  std::shared_ptr<const Program> program;
  DeviceMesh mesh; // owns the world of the groups
  PreparedProgram prepared;
  InputCheck input_check;
  std::vector<Mutation> mutations;
  RandomSource random;
  std::vector<size_t> user_inputs;           // their indices in Program::inputs
  std::unordered_set<size_t> changed_inputs; // those of these indices that runs write to
  std::unordered_set<std::string> changed_weights;
  Weights weights;
  Frame frame;
  std::atomic<bool> is_running = false;
};

Executor::State::State(std::shared_ptr<const Program> program_, const DeviceMesh& mesh_, const ExecutorOptions& options)
    : program(std::move(program_)),
      mesh(checked_mesh(*program, mesh_)),
      prepared(prepare(*program, mesh)),
      input_check(*program),
      mutations(find_mutations(*program)),
      random(in_world_scope() && current_world()->size() > 1) {
  const MemoryWrites writes(*program->graph, Forwarding::Known);
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    if (program->inputs[i].kind == InputKind::User) {
      user_inputs.push_back(i);
    }
    if (program->inputs[i].value != nullptr && writes.is_written(program->inputs[i].value)) {
      changed_inputs.insert(i);
    }
  }
  for (const auto& mutation : mutations) {
    changed_inputs.insert(mutation.input);
  }
  for (const auto i : changed_inputs) {
    if (program->inputs[i].kind != InputKind::User) {
      changed_weights.insert(program->inputs[i].target);
    }
  }
  const c10::InferenceMode inference;
  weights = Weights(*program, changed_weights, /*copies_changed=*/!options.writes_to_tensors);
  frame.random = &random;
  frame.read_only = weights.read_only();
  reset_frame();
}

void Executor::State::reset_frame() {
  frame.stack.clear();
  frame.transfers.clear();
  frame.transfers.resize(prepared.transfer_count);
  frame.slots.assign(prepared.slot_count, {});
  for (size_t i = 0; i < program->inputs.size(); ++i) {
    if (program->inputs[i].kind != InputKind::User && prepared.inputs[i] != OutputSlots::kUnused) {
      frame.slots[prepared.inputs[i]] = weights.at(program->inputs[i].target);
    }
  }
}

void Executor::State::run_steps() {
  const auto* step = prepared.steps.data();
  const auto* end = step + prepared.steps.size();
  try {
    for (; step != end; ++step) {
      step->instruction->run(frame);
    }
  } catch (c10::Error& error) {
    if (is_defect(error)) {
      rethrow_for(*step->node);
    }
    error.add_context("while running " + describe(*step->node));
    throw;
  } catch (...) {
    rethrow_for(*step->node);
  }
  // Completes the transfers that no node waited for before the run returns.
  for (auto& transfer : frame.transfers) {
    transfer.wait();
    transfer = {};
  }
}

std::vector<c10::IValue> Executor::State::run(std::vector<c10::IValue> inputs) {
  TORCH_CHECK(!is_running.exchange(true), "[Executor] one run at a time is possible, but another one is going on.");
  // The destructor runs while an error is propagated, so that running transfers are dropped instead of waited for.
  struct Scope {
    State& state;
    bool is_done = false;
    ~Scope() {
      if (!is_done) {
        state.reset_frame();
      }
      state.is_running = false;
    }
  } scope{*this};
  input_check.check(inputs);
  const c10::InferenceMode inference;
  std::vector<at::Tensor> targets;
  for (const auto& mutation : mutations) {
    const auto& input = program->inputs[mutation.input];
    const auto number = std::lower_bound(user_inputs.begin(), user_inputs.end(), mutation.input) - user_inputs.begin();
    targets.push_back(input.kind == InputKind::User ? inputs[number].toTensor() : weights.at(input.target));
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto slot = prepared.inputs[user_inputs[i]];
    if (slot != OutputSlots::kUnused) {
      frame.slots[slot] = std::move(inputs[i]);
    }
  }
  inputs.clear();
  run_steps();
  std::vector<c10::IValue> outputs;
  for (const auto& result : prepared.results) {
    outputs.push_back(result.take(frame));
  }
  if (!mutations.empty()) {
    write_back(outputs, mutations, targets);
    std::vector<c10::IValue> for_user;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (program->outputs[i].kind == OutputKind::User) {
        for_user.push_back(std::move(outputs[i]));
      }
    }
    outputs = std::move(for_user);
  }
  scope.is_done = true;
  return outputs;
}

Executor::Executor(std::shared_ptr<const Program> program, DeviceMesh mesh, ExecutorOptions options)
    : state_(std::make_unique<State>(std::move(program), mesh, options)) {}

Executor::~Executor() = default;
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;

std::vector<c10::IValue> Executor::run(std::vector<c10::IValue> inputs) {
  return state_->run(std::move(inputs));
}

void Executor::check_inputs(c10::ArrayRef<c10::IValue> inputs) const {
  state_->input_check.check(inputs);
}

bool Executor::changes_input(size_t input) const {
  return state_->changed_inputs.count(state_->user_inputs.at(input)) > 0;
}

bool Executor::changes_tensor(const std::string& name) const {
  return state_->changed_weights.count(name) > 0;
}

void Executor::manual_seed(uint64_t seed) {
  state_->random.manual_seed(seed);
}

const at::Tensor& Executor::tensor(const std::string& name) const {
  return state_->weights.at(name);
}

const Program& Executor::program() const {
  return *state_->program;
}

} // namespace weft::graph
