#include "weft/graph/parallelize/parallel_attempt.h"

#include "weft/core/layout_algebra.h"
#include "weft/graph/analysis/effects.h"
#include "weft/graph/ir/node_error.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/parallelize/inline_call.h"
#include "weft/graph/parallelize/module_boundaries.h"
#include "weft/graph/parallelize/redistributions.h"
#include "weft/graph/parallelize/shared_heads.h"
#include "weft/graph/simplify/canonicalize.h"

#include <c10/util/Exception.h>

namespace weft::graph {

namespace {

const Program& on_mesh(Program& program, const DeviceMesh& mesh) {
  program.mesh = mesh;
  return program;
}

/// Walks over the program and gives every value its layout.
class Attempt {
 public:
  Attempt(
      Program& program,
      const DeviceMesh& mesh,
      const nn::ParallelPlan& plan,
      const TensorParallelOptions& options,
      const BufferLayouts& buffers,
      const std::unordered_set<std::string>& kept_replicated)
      : program_(program),
        buffers_(buffers),
        kept_replicated_(kept_replicated),
        graph_(*program.graph),
        mesh_(mesh),
        options_(options),
        replicated_(replicated(mesh)),
        values_(on_mesh(program, mesh)),
        other_values_(program, 1),
        analysis_(mesh, values_),
        inliner_(program, values_, other_values_, mesh_),
        redistributions_(graph_, analysis_, memory_),
        boundaries_(program, mesh, plan, options.mesh_dim, redistributions_) {}

  void run() {
    canonicalize(graph_);
    place_inputs();
    for (auto* node = graph_.first(); node != nullptr;) {
      node = for_node(*node, [&] { return visit(node); });
    }
  }

 private:
  void place_inputs() {
    std::vector<Value*> user_inputs;
    for (const auto& input : program_.inputs) {
      if (input.value == nullptr || !input.value->is_tensor()) {
        continue;
      }
      auto& layout = input.value->layout;
      layout = replicated_;
      if (input.kind == InputKind::Parameter) {
        layout = boundaries_.parameter_layout(input);
        stationary_.insert(input.value);
      } else if (input.kind == InputKind::User) {
        const auto asked = options_.inputs.find(input.value->name());
        layout = asked != options_.inputs.end() ? asked->second
                                                : boundaries_.user_input_layout(user_inputs.size(), *input.value);
        user_inputs.push_back(input.value);
      } else if (const auto chosen = buffers_.find(input.target); chosen != buffers_.end()) {
        layout = chosen->second;
      } else if (!is_mutated_in_place(input.value)) {
        free_.insert(input.value);
      }
      *layout = layout->normalized(input.value->tensor().dim());
      if (is_kept_replicated(input.value) && *layout != replicated_) {
        TORCH_CHECK_NOT_IMPLEMENTED(
            input.kind != InputKind::User, "[tensor_parallel] the input \"", input.value->name(),
            "\" must be replicated, since the program writes to it where it would have to move, but ", *layout,
            " is asked for. Make the program functional with run_decompositions() before saving it.");
        layout = replicated_;
      }
    }
    boundaries_.enter_model(user_inputs, graph_.first());
  }

  /// Buffers that operators write to keep their initial layout.
  bool is_mutated_in_place(const Value* value) {
    return std::any_of(value->uses().begin(), value->uses().end(), [&](const auto& use) {
      return use.node->op() != nullptr &&
          (!written_arguments(*use.node).empty() || analysis_.traits(*use.node->op()).schema.is_view);
    });
  }

  /// Returns the node to visit next.
  Node* visit(Node* node) {
    if (node->is_return()) {
      finish(node);
      return nullptr;
    }
    values_.add(*node);
    other_values_.add(*node);
    auto* const next = node->next();
    if (node->op() == nullptr || is_size_query(*node)) {
      return next;
    }
    boundaries_.enter(node);
    if (CallAnalysis::tensor_operands(*node).empty()) {
      place_outputs(node, nullptr);
      return next;
    }
    repeat_shared_heads(graph_, node, mesh_);
    auto decision = decide(node, /*decomposes=*/true);
    if (auto* first = inlined(node, *decision)) {
      return first;
    }
    if (decision->decomposition != nullptr) {
      decision = decide(node, /*decomposes=*/false);
    }
    move_operands(node, *decision);
    check_writes(node);
    attach(node, *decision);
    place_outputs(node, decision.get());
    visited_[node] = 1;
    boundaries_.leave(node);
    keep_replicated(node);
    return next;
  }

  std::shared_ptr<const Decision> decide(Node* node, bool decomposes) {
    const auto is_stationary = [this](const Value* value) { return stationary_.contains(value); };
    const auto written = written_operands(*node);
    if (written.empty()) {
      return analysis_.decide(*node, is_stationary, decomposes);
    }
    try {
      return analysis_.decide(*node, is_stationary, decomposes);
    } catch (const c10::ValueError& error) {
      // The call cannot write to the tensor's shard or partial sum. The next attempt replicates the tensor before.
      for (const auto* value : written) {
        const auto* original = memory_.original_of(value);
        if (!is_kept_replicated(original)) {
          throw PartedByWrite{original->name(), error.what_without_backtrace()};
        }
      }
      throw;
    }
  }

  bool is_kept_replicated(const Value* value) const {
    return kept_replicated_.count(value->name()) != 0;
  }

  /// Replicates a tensor that is written to through views which would have to be redistributed.
  void keep_replicated(Node* node) {
    for (auto* output : node->outputs()) {
      if (output == nullptr || !output->is_tensor() || !is_kept_replicated(output) || *output->layout == replicated_) {
        continue;
      }
      auto* const full = redistributions_.in_layout(output, replicated_, node->next());
      const auto uses = output->uses();
      for (const auto& use : uses) {
        if (use.node->step() == nullptr) {
          use.node->set_operand(use.operand, full);
        }
      }
    }
  }

  /// If the call is decomposed, returns the first of the nodes that replace it.
  Node* inlined(Node* node, const Decision& decision) {
    auto* const before = node->previous();
    const bool is_done = decision.decomposition != nullptr
        ? inliner_.by_kernel(node, decision.decomposition->kernel)
        : decision.is_fallback && !is_random(*node) && inliner_.composite(node);
    if (!is_done) {
      return nullptr;
    }
    return before == nullptr ? graph_.first() : before->next();
  }

  void move_operands(Node* node, const Decision& decision) {
    const auto operands = CallAnalysis::tensor_operands(*node);
    for (size_t i = 0; i < operands.size(); ++i) {
      const auto number = operands[i].operand;
      auto* value = node->operand(number);
      if (!decision.redistributes(i, analysis_.spec(value))) {
        continue;
      }
      const auto& target = decision.targets[i];
      if (free_.contains(value) && value->uses().size() == 1 && !target.has_partial()) {
        value->layout = target; // the weight is stored with this layout
        continue;
      }
      node->set_operand(number, redistributions_.in_layout(value, target, node));
    }
  }

  /// Called after operands were redistributed: a write must reach all uses of the tensor that the program expects to be
  /// one.
  void check_writes(Node* node) {
    for (const auto* written : written_operands(*node)) {
      const auto* other = memory_.parted_by_write(written, [&](const Value* value) {
        return value->producer() == nullptr ||
            std::any_of(value->uses().begin(), value->uses().end(), [&](const auto& use) {
                 return use.node != node && use.node->step() == nullptr && !visited_.get(use.node);
               });
      });
      if (other != nullptr) {
        throw PartedByWrite{
            memory_.original_of(written)->name(),
            c10::str(
                "[tensor_parallel] ", to_string(*node), " writes to %", written->name(),
                ", which had to be redistributed from %", other->name(),
                ", so that the write would be lost there. Make the program functional with run_decompositions() "
                "before saving it, or choose a plan under which the tensor stays where it is.")};
      }
      redistributions_.forget_copies_of(written);
    }
  }

  void attach(Node* node, const Decision& decision) {
    if (decision.size_arguments.empty() && !decision.lookup && !decision.is_fallback) {
      auto& shared = plain_shardings_[&decision];
      if (shared == nullptr) {
        shared = std::make_shared<const CallSharding>(CallSharding{.reason = decision.reason});
      }
      node->sharding = shared;
      return;
    }
    CallSharding sharding;
    const auto operands = CallAnalysis::tensor_operands(*node);
    for (const auto& [argument, sizes, layout] : decision.size_arguments) {
      sharding.size_arguments.push_back({static_cast<size_t>(argument), sizes, layout});
    }
    if (const auto& lookup = decision.lookup) {
      sharding.lookup = CallSharding::Lookup{
          .operand = operands[lookup->operand].operand,
          .size = lookup->size,
          .layout = lookup->layout,
          .masks_output = lookup->masks_output,
          .table = operands[lookup->table].operand,
          .table_dim = lookup->table_dim};
    }
    sharding.is_fallback = decision.is_fallback;
    sharding.reason = decision.reason;
    node->sharding = std::make_shared<const CallSharding>(std::move(sharding));
  }

  /// If the rule and the program state different sizes, shards would be placed wrongly. The program may be wrong: torch
  /// 2.11 exports LSTMs with wrong sizes of their states.
  void check_expected(const Node& node, const Decision& decision, size_t number) const {
    TORCH_CHECK_VALUE(
        number < decision.expected.size(), "[tensor_parallel] ", describe(node), " must give ",
        decision.expected.size(), " tensors, as its rule says, but the program has more of it. Export it again.");
    const auto sizes = values_.of(node.output(number)->tensor().sizes);
    const auto& expected = decision.expected[number];
    TORCH_CHECK_VALUE(
        expected.fits(sizes), "[tensor_parallel] %", node.output(number)->name(), " must be of the sizes that ",
        target_name(node), " gives, ", c10::IntArrayRef(expected.sizes), " (-1: not known), but the program has it as ",
        c10::IntArrayRef(sizes), ". Export it again, with another version of torch.");
  }

  void place_outputs(Node* node, const Decision* decision) {
    const auto& schema = analysis_.traits(*node->op()).schema;
    bool is_stationary = decision != nullptr;
    for (size_t i = 0; i < node->operand_count(); ++i) {
      is_stationary = is_stationary && stationary_.contains(node->operand(i));
    }
    size_t next = 0;
    for (size_t r = 0; r < node->output_lists().size(); ++r) {
      const auto count = node->output_lists()[r] == Node::kSingle ? 1 : node->output_lists()[r];
      const auto stored = r < schema.returns.size() ? schema.returns[r].stored_in : -1;
      const auto stored_operands = stored >= 0 ? operands_of(*node, stored) : std::vector<Value*>{};
      for (int64_t k = 0; k < count; ++k, ++next) {
        auto* output = node->output(next);
        if (output == nullptr || !output->is_tensor()) {
          continue;
        }
        if (static_cast<size_t>(k) < stored_operands.size()) {
          output->layout = stored_operands[k]->layout;
        } else if (decision == nullptr || decision->is_fallback) {
          output->layout = replicated_;
        } else {
          check_expected(*node, *decision, next);
          output->layout = decision->expected[next].layout;
        }
        if (is_stationary) {
          stationary_.insert(output);
        }
      }
    }
    memory_.add_call(*node);
  }

  void finish(Node* node) {
    size_t user = 0;
    for (const auto& output : program_.outputs) {
      const auto position = output.kind == OutputKind::User ? user++ : 0;
      if (output.constant) {
        continue;
      }
      auto* value = node->operand(output.operand);
      if (value->is_tensor()) {
        const auto wanted = wanted_output(output, position, *value).normalized(value->tensor().dim());
        node->set_operand(output.operand, redistributions_.in_layout(value, wanted, node));
      }
    }
  }

  Layout wanted_output(const Output& output, size_t position, const Value& value) const {
    if (output.kind == OutputKind::User) {
      const auto asked = options_.outputs.find(position);
      return asked != options_.outputs.end() ? asked->second : boundaries_.user_output_layout(position, value);
    }
    // The target of a mutation keeps its layout.
    for (const auto& input : program_.inputs) {
      const bool is_named = output.kind == OutputKind::InputMutation
          ? input.kind == InputKind::User && input.value != nullptr && input.value->name() == output.target
          : input.kind != InputKind::User && input.target == output.target;
      if (is_named) {
        return *input.value->layout;
      }
    }
    return replicated_;
  }

  Program& program_;
  const BufferLayouts& buffers_;
  const std::unordered_set<std::string>& kept_replicated_;
  Graph& graph_;
  DeviceMesh mesh_;
  const TensorParallelOptions& options_;
  Layout replicated_;
  TrialValues values_;
  TrialValues other_values_;
  CallAnalysis analysis_;
  CallInliner inliner_;
  MemoryCopies memory_;
  Redistributions redistributions_;
  ModuleBoundaries boundaries_;
  ValueSet stationary_; // parameters, and values that are computed from parameters alone
  ValueSet free_;       // buffers and constants that may be stored under any layout
  NodeTable<char> visited_;
  std::unordered_map<const Decision*, std::shared_ptr<const CallSharding>> plain_shardings_;
};

} // namespace

void attempt_parallel(
    Program& program,
    const DeviceMesh& mesh,
    const nn::ParallelPlan& plan,
    const TensorParallelOptions& options,
    const BufferLayouts& buffers,
    const std::unordered_set<std::string>& kept_replicated) {
  Attempt(program, mesh, plan, options, buffers, kept_replicated).run();
}

} // namespace weft::graph
