#include "weft/graph/overlap/scatter_fusion.h"

#include "weft/graph/overlap/scatter_producers.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// A tensor that is reduced and scattered: along which dim, by which group, and how.
struct ReducedProduct {
  Value* full;
  TensorType shard;
  std::optional<Layout> shard_layout;
  int64_t dim;
  int64_t members;
  const std::string& group;
  const std::string& reduce_op;
};

OverlapCase case_of(const ScatterProducers& producers, const ReducedProduct& target, const OverlapGate& gate) {
  const auto sizes = gate.largest_local_sizes(*target.full);
  const auto last = static_cast<int64_t>(sizes.size()) - 1;
  OverlapCase overlap{
      .kind = OverlapKind::MatmulScatter,
      .dim = target.dim == last ? OverlapDim::Columns : OverlapDim::Rows,
      .members = target.members,
      .rows = 1,
      .inner = 0,
      .columns = sizes.back(),
      .element_bytes = static_cast<int64_t>(c10::elementSize(target.full->tensor().dtype)),
      .matmuls = static_cast<int64_t>(producers.calls().size())};
  for (int64_t d = 0; d < last; ++d) {
    overlap.rows *= sizes[d];
  }
  for (const auto& call : producers.calls()) {
    overlap.inner += gate.largest_local_sizes(*call.input).back();
  }
  return overlap;
}

/// The first leading dim whose local size the members divide evenly.
std::optional<int64_t> dim_that_divides(const Value& value, int64_t members, const DeviceMesh& mesh) {
  const auto& sizes = value.tensor().sizes;
  for (int64_t d = 0; d + 1 < value.tensor().dim(); ++d) {
    auto count = members;
    bool is_irregular = false;
    for (const auto m : value.layout->shard_order(d)) {
      count *= mesh.size(m);
      is_irregular = is_irregular || ((*value.layout)[m].is_shard() && !(*value.layout)[m].is_plain_shard());
    }
    if (!is_irregular && sizes[d].is_number() && sizes[d].number() > 0 && sizes[d].number() % count == 0) {
      return d;
    }
  }
  return std::nullopt;
}

std::string why_not_reduced(const std::string& reduce_op, const TensorType& type) {
  if (reduce_op != "sum" && reduce_op != "avg") {
    return "it reduces by " + reduce_op + ", not by sum or avg";
  }
  return c10::isFloatingType(type.dtype) ? "" : "it is of integers";
}

Value* insert_fused(
    ProgramRewriter& rewriter,
    ScatterProducers& producers,
    const ReducedProduct& target,
    int64_t chunks,
    const std::string& collective) {
  std::vector<Value*> operands;
  const auto operand = [&](Value* value) {
    operands.push_back(value);
    return Argument::operand(operands.size() - 1);
  };
  const auto optional_operand = [&](Value* value) {
    return value == nullptr ? Argument(c10::IValue()) : operand(value);
  };
  const auto& first = producers.calls()[0];
  Arguments arguments;
  if (first.is_scaled) {
    arguments.push_back(operand(producers.input_of(first)));
    arguments.push_back(operand(rewriter.matrix_of(first)));
    arguments.push_back(operand(first.input_scale));
    arguments.push_back(operand(first.other_scale));
    arguments.push_back(optional_operand(first.bias));
    arguments.push_back(optional_operand(first.result_scale));
    arguments.emplace_back(first.out_dtype ? c10::IValue(static_cast<int64_t>(*first.out_dtype)) : c10::IValue());
    arguments.emplace_back(c10::IValue(first.use_fast_accum));
  } else {
    std::vector<Argument> inputs;
    std::vector<Argument> others;
    for (const auto& call : producers.calls()) {
      inputs.push_back(operand(producers.input_of(call)));
    }
    for (const auto& call : producers.calls()) {
      others.push_back(operand(rewriter.matrix_of(call)));
    }
    arguments.push_back(Argument::list(std::move(inputs)));
    arguments.push_back(Argument::list(std::move(others)));
    arguments.push_back(optional_operand(producers.bias()));
  }
  arguments.emplace_back(c10::IValue(target.reduce_op));
  arguments.emplace_back(c10::IValue(target.dim));
  arguments.emplace_back(c10::IValue(chunks));
  arguments.emplace_back(c10::IValue(target.group));
  if (producers.dtype()) {
    arguments.emplace_back(c10::IValue(static_cast<int64_t>(*producers.dtype())));
  }
  auto* fused = rewriter.insert(
      first.is_scaled ? "weft::scaled_matmul_reduce_scatter" : "weft::matmul_reduce_scatter", std::move(arguments),
      operands, {.types = {target.shard}}, {target.shard_layout});
  if (target.shard_layout) {
    CallSharding sharding;
    sharding.reason = c10::str(collective, " over ", target.group, " overlaps it");
    fused->sharding = std::make_shared<const CallSharding>(std::move(sharding));
  }
  return fused->output();
}

/// The permutation that produces the scattered tensor, if the scatter is its only use: the shard is permuted instead.
std::optional<std::vector<int64_t>> permutation_before(const ProgramRewriter& rewriter, const Scatter& scatter) {
  const auto uses = rewriter.uses(*scatter.full);
  const bool is_alone = std::all_of(uses.begin(), uses.end(), [&](const Value::Use& use) {
    return std::find(scatter.nodes.begin(), scatter.nodes.end(), use.node) != scatter.nodes.end();
  });
  if (scatter.full->producer() == nullptr || !is_alone) {
    return std::nullopt;
  }
  const auto* step = scatter.collective->step();
  const bool is_simple = step == nullptr ||
      (step->mesh_dims.size() == 1 && (*scatter.shard->layout)[step->mesh_dims[0]] == Shard(scatter.dim));
  return is_simple ? permutation_of(*scatter.full->producer()) : std::nullopt;
}

/// The scatter of the permutation's operand that gives the same shard, but for the order of its dims.
ReducedProduct unpermuted(const Scatter& scatter, const std::vector<int64_t>& order) {
  auto* full = scatter.full->producer()->operand(0);
  const auto dim = order[scatter.dim];
  const auto& shard = scatter.shard->tensor();
  auto sizes = shard.sizes;
  for (size_t d = 0; d < order.size(); ++d) {
    sizes[order[d]] = shard.sizes[d];
  }
  auto layout = full->layout;
  if (layout) {
    layout = layout->with(scatter.collective->step()->mesh_dims[0], Shard(dim));
  }
  return {
      full,
      contiguous_type(shard.dtype, sizes, shard.device),
      layout,
      dim,
      scatter.members,
      scatter.group,
      scatter.reduce_op};
}

ReducedProduct product_of(const Scatter& scatter) {
  const auto& shard = scatter.shard->tensor();
  return {scatter.full,          contiguous_type(shard.dtype, shard.sizes, shard.device),
          scatter.shard->layout, scatter.dim,
          scatter.members,       scatter.group,
          scatter.reduce_op};
}

/// The shard with the order of dims and the contiguous memory that the replaced scatter gave it.
Value* permuted_shard(ProgramRewriter& rewriter, Value* shard, const std::vector<int64_t>& order) {
  auto* permuted = rewriter.permute(shard, order);
  const auto& type = permuted->tensor();
  return rewriter
      .insert(
          "aten::clone", {Argument::operand(0), c10::IValue(static_cast<int64_t>(c10::MemoryFormat::Contiguous))},
          {permuted}, {.types = {contiguous_type(type.dtype, type.sizes, type.device)}}, {permuted->layout})
      ->output();
}

/// The reduce-scatter of an all-reduce that is split; nullopt where no dim can be divided into equal shards.
std::optional<ReducedProduct> split_of(const Reduction& reduction, const Program& program) {
  const auto& type = reduction.input->tensor();
  ReducedProduct half{reduction.input,    contiguous_type(type.dtype, type.sizes, type.device),
                      std::nullopt,       0,
                      reduction.members,  reduction.group,
                      reduction.reduce_op};
  if (const auto* step = reduction.collective->step()) {
    const auto dim = dim_that_divides(*reduction.input, reduction.members, *program.mesh);
    if (!dim) {
      return std::nullopt;
    }
    half.dim = *dim;
    half.shard_layout = step->after.with(step->mesh_dims[0], Shard(*dim));
    return half;
  }
  // all_gather_into_tensor joins the shards along the first dim.
  const auto& rows = type.sizes[0];
  if (!rows.is_number() || rows.number() == 0 || rows.number() % reduction.members != 0) {
    return std::nullopt;
  }
  auto sizes = type.sizes;
  sizes[0] = Size(rows.number() / reduction.members);
  half.shard = contiguous_type(type.dtype, sizes, type.device);
  return half;
}

/// Inserts the gather of an all-reduce that is split.
Value* insert_gather(ProgramRewriter& rewriter, const Reduction& reduction, Value* shard) {
  if (const auto* step = reduction.collective->step()) {
    return rewriter.insert(Step{StepKind::AllGather, step->mesh_dims, *shard->layout, step->after}, shard);
  }
  const auto& type = reduction.input->tensor();
  const auto full = contiguous_type(type.dtype, type.sizes, type.device);
  auto* gather = rewriter.insert(
      "_c10d_functional::all_gather_into_tensor",
      {Argument::operand(0), Argument(c10::IValue(reduction.members)), Argument(c10::IValue(reduction.group))}, {shard},
      {.types = {full}}, {std::nullopt});
  return rewriter
      .insert(
          "_c10d_functional::wait_tensor", {Argument::operand(0)}, {gather->output()}, {.types = {full}},
          {std::nullopt})
      ->output();
}

/// Replaces the result of a collective, waited for or not, by another value.
template <class Form>
void replace(ProgramRewriter& rewriter, const Form& form, Value* result, Value* by) {
  rewriter.replace_uses(result, by);
  if (form.unwaited != nullptr) {
    for (const auto& use : rewriter.uses(*form.unwaited)) {
      if (std::find(form.nodes.begin(), form.nodes.end(), use.node) == form.nodes.end()) {
        use.node->set_operand(use.operand, by);
      }
    }
  }
  rewriter.mark_unused(form.nodes);
}

/// Copies a verdict into a decision.
void take(OverlapDecision& decision, const OverlapGate::Verdict& verdict, const ScatterProducers& producers) {
  decision.reason = verdict.reason;
  decision.predicted_gain_seconds = verdict.gain_seconds;
  decision.is_by_rates = verdict.is_by_rates;
  decision.fused = verdict.fuse;
  if (verdict.fuse) {
    decision.chunks = verdict.chunks;
    decision.matmuls = static_cast<int64_t>(producers.calls().size());
    decision.module = producers.calls()[0].node->origin.module;
  }
}

} // namespace

OverlapDecision fuse_scatter(ProgramRewriter& rewriter, OverlapGate& gate, const Scatter& scatter) {
  OverlapDecision decision{
      .node = scatter.collective->output()->name(),
      .module = scatter.collective->origin.module,
      .kind = "reduce_scatter",
      .group = scatter.group,
      .reason = scatter.refused};
  if (!decision.reason.empty()) {
    return decision;
  }
  decision.reason = why_not_reduced(scatter.reduce_op, scatter.full->tensor());
  if (decision.reason.empty() && scatter.is_full_kept) {
    decision.reason = "%" + scatter.full->name() + " is used by others too";
  }
  if (!decision.reason.empty()) {
    return decision;
  }
  const auto order = permutation_before(rewriter, scatter);
  const auto target = order ? unpermuted(scatter, *order) : product_of(scatter);
  const auto users = order ? std::vector{scatter.full->producer()} : scatter.nodes;
  ScatterProducers producers(rewriter, target.full, users, scatter.nodes.front());
  decision.reason = producers.refused();
  const bool is_of_columns = target.dim == target.full->tensor().dim() - 1;
  if (decision.reason.empty() && is_of_columns && producers.calls()[0].is_scaled) {
    decision.reason = "its matmul is scaled, and its columns are scattered";
  }
  if (!decision.reason.empty()) {
    return decision;
  }
  const auto verdict = gate.decide(case_of(producers, target, gate), *scatter.collective, scatter.group);
  take(decision, verdict, producers);
  if (!verdict.fuse) {
    return decision;
  }
  // All operands are computed before the first node of the scatter.
  rewriter.insert_before(scatter.nodes.front(), producers.calls()[0].node->origin);
  auto* shard = insert_fused(rewriter, producers, target, verdict.chunks, "a reduce_scatter");
  replace(rewriter, scatter, scatter.shard, order ? permuted_shard(rewriter, shard, *order) : shard);
  if (order) {
    rewriter.mark_unused(users);
  }
  rewriter.mark_unused(producers.nodes());
  return decision;
}

OverlapDecision fuse_reduction(ProgramRewriter& rewriter, OverlapGate& gate, const Reduction& reduction) {
  OverlapDecision decision{
      .node = reduction.collective->output()->name(),
      .module = reduction.collective->origin.module,
      .kind = "all_reduce",
      .group = reduction.group,
      .reason = reduction.refused};
  const auto* step = reduction.collective->step();
  if (decision.reason.empty() && reduction.members == 0) {
    decision.reason =
        "the number of members of " + reduction.group + " is not known: it is no dim of the program's mesh";
  }
  if (decision.reason.empty() && step != nullptr && step->mesh_dims.size() > 1) {
    decision.reason = "it is over more than one mesh dim";
  }
  if (decision.reason.empty()) {
    decision.reason = why_not_reduced(reduction.reduce_op, reduction.input->tensor());
  }
  if (!decision.reason.empty()) {
    return decision;
  }
  ScatterProducers producers(rewriter, reduction.input, reduction.nodes, reduction.nodes.front());
  decision.reason = producers.refused();
  const auto split = decision.reason.empty() ? split_of(reduction, rewriter.program()) : std::nullopt;
  if (decision.reason.empty() && !split) {
    decision.reason = c10::str(
        step != nullptr ? "none of its leading dims is divided by " : "its first dim is not divided by ",
        reduction.members);
  }
  if (!decision.reason.empty()) {
    return decision;
  }
  const auto verdict = gate.decide(case_of(producers, *split, gate), *reduction.collective, reduction.group, 1);
  take(decision, verdict, producers);
  if (!verdict.fuse) {
    return decision;
  }
  rewriter.insert_before(reduction.nodes.front(), producers.calls()[0].node->origin);
  auto* shard = insert_fused(rewriter, producers, *split, verdict.chunks, "half of an all_reduce");
  replace(rewriter, reduction, reduction.result, insert_gather(rewriter, reduction, shard));
  rewriter.mark_unused(producers.nodes());
  return decision;
}

} // namespace weft::graph
