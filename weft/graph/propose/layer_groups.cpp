#include "weft/graph/propose/layer_groups.h"

#include "weft/comm/world/fake_world.h"
#include "weft/graph/analysis/slice_range.h"

namespace weft::graph {

namespace {

/// Features of some layers in a value.
struct Flow {
  FeatureDims dims;
  std::vector<size_t> sources;
  std::optional<int64_t> part =
      std::nullopt;         // the first feature of a part of the only source, if these are its features
  bool is_residual = false; // whether values that no source computed have been added
};

/// Features of a layer that a slice, or one result of a split, takes: queries, keys or values of one layer for all three.
struct FeaturePart {
  int64_t length = 0;
  int64_t heads = 0; // 0 if there are none
  int64_t count = 0; // so many parts of one size, which a view divides it into; 0 until its use is known
};

class Flows {
 public:
  Flows(
      const Program& program,
      const std::unordered_map<const Node*, WeightedLayer>& layers,
      const std::set<std::string>& excluded)
      : program_(program),
        layers_(layers),
        excluded_(excluded),
        values_(program),
        analysis_(analysis_mesh("tp=2"), values_) {}

  std::vector<LayerGroup> run() {
    for (const auto* node = program_.graph->first(); node != nullptr; node = node->next()) {
      values_.add(*node);
      if (node->is_return()) {
        end(*node);
      } else if (node->op() != nullptr) {
        visit(*node);
      }
    }
    for (const auto& [number, parts] : parts_) {
      take_parts(number, parts);
    }
    std::vector<LayerGroup> result;
    for (size_t i = 0; i < groups_.size(); ++i) {
      if (root(i) == i) {
        result.push_back(std::move(groups_[i]));
      }
    }
    return result;
  }

 private:
  size_t root(size_t group) {
    while (joined_[group] != group) {
      group = joined_[group] = joined_[joined_[group]];
    }
    return group;
  }

  /// The group of a source, identified by its first source.
  LayerGroup& group_of(size_t source) {
    return groups_[root(source)];
  }

  LayerGroup::Source& source(size_t number) {
    for (auto& each : group_of(number).sources) {
      if (each.layer == layers_of_sources_[number]) {
        return each;
      }
    }
    TORCH_INTERNAL_ASSERT(false);
  }

  void join(size_t a, size_t b) {
    a = root(a);
    b = root(b);
    if (a == b) {
      return;
    }
    const auto [first, second] = std::minmax(a, b);
    auto& into = groups_[first];
    auto& from = groups_[second];
    into.sources.insert(into.sources.end(), from.sources.begin(), from.sources.end());
    into.partners.insert(into.partners.end(), from.partners.begin(), from.partners.end());
    into.output = into.output ? into.output : from.output;
    into.obstacle = into.obstacle.empty() ? from.obstacle : into.obstacle;
    joined_[second] = first;
  }

  void stop(const Flow& flow, const std::string& obstacle) {
    auto& group = group_of(flow.sources[0]);
    group.obstacle = group.obstacle.empty() ? obstacle : group.obstacle;
  }

  /// Records what the views so far tell of the layers: heads and joint projections.
  void settle(const Flow& flow) {
    const auto size = flow.dims.outermost_size();
    const auto step = flow.dims.outermost();
    for (const auto number : flow.sources) {
      auto& each = source(number);
      auto* part = flow.part ? &parts_[number][*flow.part] : nullptr;
      const auto rows = part != nullptr ? part->length : each.layer->rows;
      if (flow.sources.size() > 1 || flow.dims.parts * size * step != rows) {
        continue; // after features met, only the first ones are followed
      }
      if (part != nullptr) {
        part->heads = step > 1 ? size : part->heads;
        part->count = flow.dims.parts;
        continue;
      }
      const bool is_known = settled_.count(number) != 0;
      if (is_known && each.parts != flow.dims.parts) {
        stop(flow, "some of its features are used as parts, and some not");
      }
      each.parts = flow.dims.parts;
      if (step > 1) {
        each.heads = size;
      }
      settled_.insert(number);
    }
  }

  /// The features that a call takes of the last dim of a tensor, for each of its results; empty if it does something else.
  static std::vector<SliceRange> ranges_of(const Node& node) {
    if (const auto range = slice_range(node)) {
      return {*range};
    }
    const bool is_split = calls(node, "aten::split_with_sizes") || calls(node, "aten::split.sizes");
    if (!is_split || !node.arguments()[1].is_constant() || !node.arguments()[1].constant().isIntList()) {
      return {};
    }
    const auto ndim = static_cast<int64_t>(node.operand(0)->tensor().sizes.size());
    const auto dim = node.arguments()[2].is_constant() ? node.arguments()[2].constant().toInt() : 0;
    std::vector<SliceRange> ranges;
    int64_t begin = 0;
    for (const auto size : node.arguments()[1].constant().toIntVector()) {
      ranges.push_back({dim < 0 ? dim + ndim : dim, begin, begin + size});
      begin += size;
    }
    return ranges;
  }

  /// Follows what slices or a split take of a layer's output as parts of it. Whether these are all of its features turns out at
  /// the end.
  bool follow_parts(const Node& node, const Flow& flow) {
    const auto ranges = ranges_of(node);
    const auto& last = flow.dims.dims.back();
    const bool has_all_features =
        flow.sources.size() == 1 && !flow.part && last.size() == 1 && last[0].step == 1 && flow.dims.parts == 1;
    const auto last_dim = static_cast<int64_t>(flow.dims.dims.size()) - 1;
    if (ranges.empty() || ranges[0].dim != last_dim || !has_all_features ||
        last[0].size != source(flow.sources[0]).layer->rows || ranges[0].end - ranges[0].begin == last[0].size) {
      return false;
    }
    for (size_t i = 0; i < ranges.size(); ++i) {
      const auto* output = node.output(i);
      auto& part = parts_[flow.sources[0]][ranges[i].begin];
      const auto length = ranges[i].end - ranges[i].begin;
      if (part.length != 0 && part.length != length) {
        stop(flow, target_name(node) + " needs all of its features");
      }
      part.length = length;
      if (output != nullptr && output->is_tensor()) {
        auto dims = flow.dims;
        dims.dims.back() = {{length, 1}};
        flows_[output] = {std::move(dims), flow.sources, ranges[i].begin};
      }
    }
    return true;
  }

  /// Settles the parts of a layer whose output is not used but by parts.
  void take_parts(size_t number, const std::map<int64_t, FeaturePart>& parts) {
    auto& each = source(number);
    auto& obstacle = group_of(number).obstacle;
    const auto refuse = [&](const char* why) { obstacle = obstacle.empty() ? why : obstacle; };
    std::vector<int64_t> sizes;
    std::set<int64_t> features; // of a head, or 1 where there are no heads
    int64_t most_heads = 0;
    int64_t end = 0;
    for (const auto& [begin, part] : parts) {
      if (begin != end || part.count == 0) {
        refuse("some of its features are used as parts, and some not");
        return;
      }
      end = begin + part.length;
      const auto size = part.heads == 0 ? part.length / part.count : part.heads;
      sizes.insert(sizes.end(), part.count, size);
      features.insert(part.length / part.count / size);
      most_heads = std::max(most_heads, part.heads);
    }
    if (end != each.layer->rows) {
      refuse("some of its features are used as parts, and some not");
    } else if (features.size() > 1) {
      refuse("its parts have heads of different sizes");
    } else {
      each.part_sizes = std::move(sizes);
      each.heads = most_heads == 0 ? std::nullopt : std::optional(most_heads);
    }
  }

  void start(const WeightedLayer& layer) {
    const auto number = groups_.size();
    joined_.push_back(number);
    groups_.emplace_back();
    groups_.back().sources.push_back({&layer, std::nullopt, 1});
    layers_of_sources_.push_back(&layer);
    const auto* output = layer.node->output();
    flows_[output] = {FeatureDims::last(values_.of(output->tensor().sizes)), {number}};
  }

  void visit(const Node& node) {
    const auto layer = layers_.find(&node);
    const auto operands = CallAnalysis::tensor_operands(node);
    std::vector<size_t> tracked; // positions among the operands
    for (size_t i = 0; i < operands.size(); ++i) {
      if (flows_.count(node.operand(operands[i].operand)) != 0) {
        tracked.push_back(i);
      }
    }
    const bool is_linear = layer != layers_.end() && !layer->second.is_embedding;
    if (tracked.empty()) {
      if (is_linear && excluded_.count(layer->second.module) == 0) {
        start(layer->second);
      }
      return;
    }
    const bool has_tensors = std::any_of(node.outputs().begin(), node.outputs().end(), [](const Value* output) {
      return output != nullptr && output->is_tensor();
    });
    if (!has_tensors) {
      return; // sizes and checks, which do not use features
    }
    if (tracked.size() == 1 && follow_parts(node, flows_.at(node.operand(operands[tracked[0]].operand)))) {
      return;
    }
    const auto rule = analysis_.rule(node);
    if (rule) {
      // type_as reads the dtype alone.
      const auto& ignored = rule->of_any_layout;
      tracked.erase(
          std::remove_if(
              tracked.begin(), tracked.end(),
              [&](size_t operand) { return std::find(ignored.begin(), ignored.end(), operand) != ignored.end(); }),
          tracked.end());
    }
    for (size_t k = 0; k < tracked.size(); ++k) {
      const auto& flow = flows_.at(node.operand(operands[tracked[k]].operand));
      if (is_linear || tracked.size() > 1) {
        settle(flow);
      }
      if (!rule) {
        stop(flow, target_name(node) + " has no rule for it");
      }
    }
    if (rule) {
      pass(node, *rule, operands, tracked, is_linear ? &layer->second : nullptr);
    }
  }

  /// Whether a call reduces all of the features, so that its result has none. Over sharded features that takes an all-reduce
  /// of the result, by the rule or by a decomposition.
  bool takes_moments(const Node& node, const Rule& rule, size_t operand, const FeatureDims& features) {
    const auto* decomposition = analysis_.traits(*node.op()).decomposition;
    const bool is_decomposed = decomposition != nullptr && decomposition->is_in_programs;
    const auto& dims = rule.inputs[operand];
    for (size_t d = 0; d < features.dims.size(); ++d) {
      const auto& stretches = features.dims[d];
      const bool has_features =
          std::any_of(stretches.begin(), stretches.end(), [](const auto& stretch) { return stretch.step != 0; });
      const auto is_kept = [&](Rule::Factor factor) {
        return !rule.is_reduced(factor) || (rule.is_unsharded(factor) && !is_decomposed);
      };
      if (has_features &&
          (d >= dims.size() || dims[d].empty() || std::any_of(dims[d].begin(), dims[d].end(), is_kept))) {
        return false;
      }
    }
    return true;
  }

  /// Whether a call adds values that have the dim of the features and are computed without them, as a residual connection does.
  static bool adds_others(
      const Node& node,
      const Rule& rule,
      Rule::Factor factor,
      c10::ArrayRef<CallAnalysis::TensorOperand> operands,
      const std::vector<size_t>& tracked) {
    for (size_t i = 0; i < operands.size() && calls(node, "aten::add.Tensor"); ++i) {
      const bool is_computed = node.operand(operands[i].operand)->producer() != nullptr;
      const bool is_other = std::find(tracked.begin(), tracked.end(), i) == tracked.end();
      if (is_computed && is_other && Rule::has(rule.inputs[i], factor)) {
        return true;
      }
    }
    return false;
  }

  void pass(
      const Node& node,
      const Rule& rule,
      c10::ArrayRef<CallAnalysis::TensorOperand> operands,
      const std::vector<size_t>& tracked,
      const WeightedLayer* layer) {
    const bool is_view = analysis_.traits(*node.op()).schema.is_view;
    std::optional<Rule::Factor> factor;
    std::vector<std::optional<FeatureDims>> outputs;
    std::vector<size_t> sources;
    std::optional<int64_t> part;
    bool is_residual = false;
    for (const auto position : tracked) {
      const auto* value = node.operand(operands[position].operand);
      const auto flow = flows_.at(value);
      const auto passage = pass_features(rule, position, flow.dims, is_view);
      const bool is_summed = passage.kind == FeaturePassage::Kind::Reduced && layer != nullptr && value == layer->input;
      if (is_summed && flow.dims.leads_last_dim()) {
        group_of(flow.sources[0]).partners.push_back(layer);
        return;
      }
      if (tracked.size() == 1 && layer == nullptr && takes_moments(node, rule, position, flow.dims)) {
        if (flow.is_residual) {
          // Every norm and every layer up to the end of the model would reduce what it reads of the sum.
          stop(flow, "its features are added to others, and " + target_name(node) + " reads the sums");
        }
        for (const auto number : flow.sources) {
          source(number).has_moments = true;
        }
        return;
      }
      if (passage.kind != FeaturePassage::Kind::Passes || (factor && *factor != passage.factor)) {
        const bool needs_all = passage.kind == FeaturePassage::Kind::Stopped;
        for (const auto each : tracked) {
          stop(
              flows_.at(node.operand(operands[each].operand)),
              target_name(node) + (needs_all ? " needs all of its features" : " mixes its features"));
        }
        return;
      }
      part = !factor || part == flow.part ? flow.part : std::nullopt;
      is_residual = is_residual || flow.is_residual;
      if (!factor) {
        factor = passage.factor;
        outputs = passage.outputs;
      }
      join(flow.sources[0], sources.empty() ? flow.sources[0] : sources[0]);
      for (const auto number : flow.sources) {
        if (std::find(sources.begin(), sources.end(), number) == sources.end()) {
          sources.push_back(number);
        }
      }
    }
    is_residual = is_residual || (factor && adds_others(node, rule, *factor, operands, tracked));
    for (size_t i = 0; i < node.outputs().size() && i < outputs.size(); ++i) {
      const auto* output = node.output(i);
      if (output == nullptr || !output->is_tensor() || output->uses().empty()) {
        continue;
      }
      if (outputs[i]) {
        flows_[output] = {*outputs[i], sources, part, is_residual};
      } else {
        stop({{}, sources}, target_name(node) + " mixes its features");
      }
    }
  }

  void end(const Node& node) {
    size_t position = 0;
    for (const auto& output : program_.outputs) {
      const auto flow = output.constant ? flows_.end() : flows_.find(node.operand(output.operand));
      if (output.kind == OutputKind::User && flow != flows_.end()) {
        group_of(flow->second.sources[0]).output = position;
      }
      position += output.kind == OutputKind::User ? 1 : 0;
    }
  }

  const Program& program_;
  const std::unordered_map<const Node*, WeightedLayer>& layers_;
  const std::set<std::string>& excluded_;
  TrialValues values_;
  CallAnalysis analysis_;
  std::unordered_map<const Value*, Flow> flows_;
  std::vector<LayerGroup> groups_;                      // one per source, until they meet
  std::vector<size_t> joined_;                          // for every group, the one that it has joined
  std::vector<const WeightedLayer*> layers_of_sources_; // by number
  std::set<size_t> settled_;
  std::map<size_t, std::map<int64_t, FeaturePart>> parts_; // by source and first feature
};

} // namespace

std::vector<LayerGroup> find_layer_groups(
    const Program& program,
    const std::unordered_map<const Node*, WeightedLayer>& layers,
    const std::set<std::string>& excluded) {
  return Flows(program, layers, excluded).run();
}

} // namespace weft::graph
