#include "weft/graph/overlap/gather_fusion.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/overlap/gather_consumers.h"

#include <algorithm>

namespace weft::graph {

namespace {

class GatherFusion {
 public:
  GatherFusion(ProgramRewriter& rewriter, OverlapGate& gate, const Gather& gather)
      : rewriter_(rewriter), gate_(gate), gather_(gather) {}

  OverlapDecision run() {
    decision_.kind = "all_gather";
    decision_.group = gather_.group;
    decision_.node = gather_.collective->output()->name();
    decision_.module = gather_.collective->origin.module;
    if (!gather_.refused.empty()) {
      decision_.reason = gather_.refused;
      return decision_;
    }
    GatherConsumers consumers(rewriter_, gather_);
    decision_.reason = consumers.refused();
    if (!decision_.reason.empty()) {
      return decision_;
    }
    const auto verdict = gate_.decide(case_of(consumers), *gather_.collective, gather_.group);
    decision_.reason = verdict.reason;
    decision_.predicted_gain_seconds = verdict.gain_seconds;
    decision_.is_by_rates = verdict.is_by_rates;
    if (!verdict.fuse) {
      return decision_;
    }
    decision_.fused = true;
    decision_.chunks = verdict.chunks;
    decision_.matmuls = static_cast<int64_t>(consumers.taken().size());
    decision_.module = consumers.taken()[0].call.node->origin.module;
    if (!consumers.left().empty()) {
      decision_.reason += "; " + consumers.left();
    }
    rewrite(consumers);
    return decision_;
  }

 private:
  OverlapCase case_of(const GatherConsumers& consumers) const {
    const auto sizes = gate_.largest_local_sizes(*consumers.roots()[0]);
    OverlapCase overlap{
        .kind = OverlapKind::GatherMatmul,
        .dim = consumers.sums_over_members() ? OverlapDim::Inner : OverlapDim::Rows,
        .members = gather_.members,
        .rows = 1,
        .inner = sizes.back(),
        .columns = 0,
        .element_bytes = static_cast<int64_t>(c10::elementSize(consumers.roots()[0]->tensor().dtype)),
        .matmuls = static_cast<int64_t>(consumers.taken().size())};
    for (size_t d = 0; d + 1 < sizes.size(); ++d) {
      overlap.rows *= sizes[d];
    }
    for (const auto& consumer : consumers.taken()) {
      overlap.columns += gate_.largest_local_sizes(*consumer.call.node->output()).back();
    }
    return overlap;
  }

  void rewrite(const GatherConsumers& consumers) {
    const auto& taken = consumers.taken();
    auto* place = consumers.place();
    rewriter_.hoist(consumers.hoisted(), place);
    rewriter_.insert_before(place, taken[0].call.node->origin);
    auto* shard = current_shard(gather_);
    if (gather_.viewed_as) {
      shard = rewriter_.view_as(shard, *gather_.viewed_as);
    }
    for (const auto* node : consumers.onto_shard()) {
      shard = rewriter_.repeat(*node, shard);
    }
    const auto replaced = consumers.nodes_that_go();
    // Nodes that stay use the gathered value that the fused operator returns.
    std::vector<std::pair<Value*, Value::Use>> other_uses;
    for (auto* root : consumers.roots()) {
      for (const auto& use : rewriter_.uses(*root)) {
        if (std::find(replaced.begin(), replaced.end(), use.node) == replaced.end()) {
          other_uses.emplace_back(root, use);
        }
      }
    }
    const bool keeps_gathered = !other_uses.empty() || !gather_.kept.empty();
    auto* fused = insert_fused(consumers, shard, keeps_gathered);
    for (size_t i = 0; i < taken.size(); ++i) {
      replace(taken[i], fused->output(i), consumers.product_layout(taken[i]));
    }
    for (auto* node : replaced) {
      rewriter_.mark_replaced(node);
    }
    if (keeps_gathered) {
      auto* gathered = fused->outputs().back();
      for (const auto& [root, use] : other_uses) {
        use.node->set_operand(use.operand, gathered);
      }
      for (const auto& kept : gather_.kept) {
        remake_kept(kept, gathered, place);
      }
    }
    rewriter_.mark_unused(gather_.nodes);
  }

  void remake_kept(const Gather::Kept& kept, Value* gathered, Node* place) {
    auto* made = remake(gather_, kept, gathered, place);
    rewriter_.place_nodes_before(place);
    for (const auto& use : rewriter_.uses(*kept.value)) {
      if (std::find(gather_.nodes.begin(), gather_.nodes.end(), use.node) == gather_.nodes.end() &&
          use.node != made->producer()) {
        use.node->set_operand(use.operand, made);
      }
    }
  }

  Node* insert_fused(const GatherConsumers& consumers, Value* shard, bool keeps_gathered) {
    const auto& taken = consumers.taken();
    const bool is_scaled = taken[0].call.is_scaled;
    std::vector<Value*> operands = {shard};
    const auto operand = [&](Value* value) {
      operands.push_back(value);
      return Argument::operand(operands.size() - 1);
    };
    const auto optional_operand = [&](Value* value) {
      return value == nullptr ? Argument(c10::IValue()) : operand(value);
    };
    const auto any = [&](Value* MatmulCall::*member) {
      return std::any_of(taken.begin(), taken.end(), [&](const GatherConsumers::Consumer& each) {
        return each.call.*member != nullptr;
      });
    };
    // One element per matmul, or an empty list where no matmul has one.
    const auto optional_list = [&](Value* MatmulCall::*member) {
      if (!any(member)) {
        return Argument(c10::IValue(c10::List<std::optional<at::Tensor>>()));
      }
      std::vector<Argument> elements;
      for (const auto& each : taken) {
        elements.push_back(optional_operand(each.call.*member));
      }
      return Argument::list(std::move(elements));
    };
    Arguments arguments = {Argument::operand(0)};
    if (is_scaled) {
      arguments.push_back(operand(taken[0].call.input_scale));
    }
    std::vector<Argument> others;
    for (const auto& each : taken) {
      others.push_back(operand(rewriter_.matrix_of(each.call)));
    }
    arguments.push_back(Argument::list(std::move(others)));
    if (is_scaled) {
      std::vector<Argument> scales;
      for (const auto& each : taken) {
        scales.push_back(operand(each.call.other_scale));
      }
      arguments.push_back(Argument::list(std::move(scales)));
    }
    arguments.push_back(optional_list(&MatmulCall::bias));
    if (is_scaled) {
      arguments.push_back(optional_list(&MatmulCall::result_scale));
      c10::impl::GenericList dtypes(c10::OptionalType::create(c10::IntType::get()));
      c10::List<bool> fast;
      for (const auto& each : taken) {
        dtypes.push_back(each.call.out_dtype ? c10::IValue(static_cast<int64_t>(*each.call.out_dtype)) : c10::IValue());
        fast.push_back(each.call.use_fast_accum);
      }
      arguments.emplace_back(c10::IValue(dtypes));
      arguments.emplace_back(c10::IValue(fast));
    }
    arguments.emplace_back(c10::IValue(consumers.dim()));
    arguments.push_back(
        gather_.size ? rewriter_.size_argument(shard, consumers.dim(), *gather_.size, operands)
                     : Argument(c10::IValue()));
    arguments.emplace_back(c10::IValue(decision_.chunks));
    arguments.emplace_back(c10::IValue(keeps_gathered));
    arguments.emplace_back(c10::IValue(gather_.group));
    OutputTypes outputs;
    std::vector<std::optional<Layout>> layouts;
    for (const auto& each : taken) {
      const auto& product = each.call.node->output()->tensor();
      auto sizes = consumers.roots()[0]->tensor().sizes;
      sizes.back() = product.sizes.back();
      outputs.types.emplace_back(contiguous_type(product.dtype, std::move(sizes), product.device));
      layouts.push_back(consumers.product_layout(each));
    }
    if (keeps_gathered) {
      const auto& full = consumers.roots()[0]->tensor();
      outputs.types.emplace_back(contiguous_type(full.dtype, full.sizes, full.device));
      outputs.names.resize(taken.size());
      outputs.names.emplace_back("gathered");
      layouts.push_back(consumers.roots()[0]->layout);
    }
    outputs.lists = {static_cast<int64_t>(outputs.types.size())};
    auto* fused = rewriter_.insert(
        is_scaled ? "weft::all_gather_scaled_matmul" : "weft::all_gather_matmul", std::move(arguments), operands,
        std::move(outputs), layouts);
    if (gather_.collective->step() != nullptr) {
      CallSharding sharding;
      sharding.reason = "an all_gather over " + gather_.group + " overlaps it";
      fused->sharding = std::make_shared<const CallSharding>(std::move(sharding));
    }
    return fused;
  }

  /// Replaces the uses of a matmul's output by the product of the fused operator. A view of the output that has the
  /// sizes and the layout of the product is replaced by it; other uses get the product reshaped to the sizes of the
  /// output.
  void replace(const GatherConsumers::Consumer& consumer, Value* product, const std::optional<Layout>& layout) {
    auto* output = consumer.call.node->output();
    if (product->tensor().sizes == output->tensor().sizes) {
      rewriter_.replace_uses(output, product);
      return;
    }
    for (const auto& use : rewriter_.uses(*output)) {
      auto* shown = use.node->outputs().size() == 1 ? use.node->output() : nullptr;
      if (keeps_rows(*use.node) && shown->tensor().sizes == product->tensor().sizes && shown->layout == layout) {
        rewriter_.replace_uses(shown, product);
        rewriter_.mark_replaced(use.node);
      }
    }
    if (!rewriter_.uses(*output).empty()) {
      rewriter_.replace_uses(output, rewriter_.reshape(product, output->tensor().sizes, output->layout));
    }
  }

  ProgramRewriter& rewriter_;
  OverlapGate& gate_;
  const Gather& gather_;
  OverlapDecision decision_;
};

} // namespace

OverlapDecision fuse_gather(ProgramRewriter& rewriter, OverlapGate& gate, const Gather& gather) {
  return GatherFusion(rewriter, gate, gather).run();
}

} // namespace weft::graph
