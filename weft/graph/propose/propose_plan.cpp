#include "weft/graph/propose/propose_plan.h"

#include "weft/graph/ir/clone.h"
#include "weft/graph/parallelize/module_patterns.h"
#include "weft/graph/propose/layer_groups.h"
#include "weft/graph/propose/replicated_parameters.h"
#include "weft/graph/simplify/canonicalize.h"
#include "weft/styles/style_json.h"

#include <c10/util/StringUtil.h>
#include <nlohmann/json.hpp>

namespace weft::graph {

namespace {

/// If a rank would get fewer rows than this, a layer is too small to be worth a collective.
constexpr int64_t kFewRows = 8;

using Layers = std::unordered_map<const Node*, WeightedLayer>;

/// The style that is proposed for a module, and why; without a style, why none is proposed.
struct Proposal {
  std::optional<nn::Style> style;
  std::string reason;
  std::vector<std::string> others; // the modules that replace "%" in the reason
  bool is_of_parameter = false;
  std::string remark = {}; // after the reason
};

class Proposing {
 public:
  Proposing(const Program& program, int64_t ranks)
      : program_(program), ranks_(ranks), modules_(program), layers_(find_weighted_layers(program, modules_)) {}

  ProposedPlan run() {
    propose_groups();
    propose_embeddings();
    return as_patterns();
  }

 private:
  static std::string obstacle_text(const std::string& obstacle) {
    return "left replicated: " + obstacle;
  }

  /// Why a group cannot be a pair; empty if it can.
  std::string obstacle_of(const LayerGroup& group) const {
    if (!group.obstacle.empty()) {
      return group.obstacle;
    }
    if (group.partners.empty()) {
      return "no other layer sums its features up";
    }
    const auto most = heads_of(group);
    for (const auto& source : group.sources) {
      const auto heads = source.heads.value_or(ranks_);
      const bool is_few = source.heads != most && heads < ranks_ && ranks_ % heads == 0 && source.parts == 1;
      if (heads % ranks_ != 0 && !is_few) {
        return c10::str(heads, " heads cannot be divided among ", ranks_, " ranks");
      }
      for (const auto size : source.part_sizes) {
        if (size % ranks_ != 0) {
          return c10::str("a part of ", size, " heads cannot be divided among ", ranks_, " ranks");
        }
      }
    }
    return {};
  }

  static std::optional<int64_t> heads_of(const LayerGroup& group) {
    std::optional<int64_t> most;
    for (const auto& source : group.sources) {
      most = source.heads ? std::max(most.value_or(0), *source.heads) : most;
    }
    return most;
  }

  /// Excludes the layers that could not be sharded and tries again, because the layers after them may be possible then.
  void propose_groups() {
    std::set<std::string> excluded;
    for (;;) {
      const auto groups = find_layer_groups(program_, layers_, excluded);
      const auto before = excluded.size();
      proposals_.clear();
      for (const auto& group : groups) {
        const bool is_output = group.partners.empty() && group.obstacle.empty() && group.output.has_value();
        const auto obstacle = obstacle_of(group);
        if (is_output) {
          propose_output(group);
        } else if (obstacle.empty()) {
          propose_pair(group, excluded);
        } else {
          for (const auto& source : group.sources) {
            left_out_.try_emplace(source.layer->module, Proposal{std::nullopt, obstacle_text(obstacle), {}});
            excluded.insert(source.layer->module);
          }
        }
      }
      if (excluded.size() == before) {
        return;
      }
    }
  }

  /// A module that is called twice must be sharded in the same way in both calls.
  void propose(const std::string& module, Proposal proposal, std::set<std::string>& excluded) {
    const auto [found, is_new] = proposals_.try_emplace(module, proposal);
    if (!is_new && found->second.style != proposal.style) {
      left_out_[module] = {
          std::nullopt, obstacle_text("it is called in places that would shard it in different ways"), {}};
      excluded.insert(module);
    }
  }

  void propose_pair(const LayerGroup& group, std::set<std::string>& excluded) {
    std::vector<std::string> partners;
    for (const auto* partner : group.partners) {
      partners.push_back(partner->module);
    }
    std::vector<std::string> sources;
    const auto heads = heads_of(group);
    for (const auto& source : group.sources) {
      sources.push_back(source.layer->module);
      auto reason = std::string(heads ? "attention: " : "feed-forward: ");
      if (source.heads && *source.heads % ranks_ != 0) {
        reason += c10::str(*source.heads, " heads are fewer than the ranks, which all compute them, for %");
      } else {
        reason += (source.heads ? c10::str(*source.heads, " heads") : "its features") + " stay apart until %";
      }
      const auto* moments = source.has_moments ? "; a norm over them all-reduces its moments" : "";
      const bool is_stack = source.layer->stack.has_value();
      propose(source.layer->module, {source_style(source), reason, partners, is_stack, moments}, excluded);
    }
    for (const auto* partner : group.partners) {
      const bool is_stack = partner->stack.has_value();
      const auto* reason = is_stack ? "sums up what comes of %" : "sums up, by one all_reduce, what comes of %";
      propose(partner->module, {partner_style(*partner, heads), reason, sources, is_stack}, excluded);
      if (is_stack) {
        // Has no boundary of its own, and what uses its terms would each reduce them.
        const Proposal at_end{
            nn::prepare_output({{.to = Replicate()}}),
            "reduces, by one all_reduce, what comes of %",
            {partner->module}};
        propose(partner->stack->owner, at_end, excluded);
      }
    }
  }

  static nn::Style source_style(const LayerGroup::Source& source) {
    if (source.layer->stack && source.layer->stack->is_transposed) {
      return nn::shard_parameter(2, source.part_sizes.empty() ? nn::Parts(source.parts) : nn::Parts(source.part_sizes));
    }
    nn::ShardedStyleOptions options;
    const bool has_sizes = !source.part_sizes.empty();
    options.heads = source.layer->stack || has_sizes ? std::nullopt : source.heads;
    options.parts = has_sizes ? nn::Parts(source.part_sizes) : nn::Parts(source.parts);
    return nn::colwise(options);
  }

  static nn::Style partner_style(const WeightedLayer& partner, std::optional<int64_t> heads) {
    if (partner.stack && partner.stack->is_transposed) {
      return nn::shard_parameter(1);
    }
    nn::ShardedStyleOptions options;
    options.heads = partner.stack ? std::nullopt : heads;
    return nn::rowwise(options);
  }

  void propose_output(const LayerGroup& group) {
    const auto& layer = *group.sources[0].layer;
    if (layer.rows < kFewRows * ranks_) {
      left_out_.try_emplace(
          layer.module, Proposal{std::nullopt, obstacle_text(c10::str("it has ", layer.rows, " features alone")), {}});
      return;
    }
    const auto text = c10::str("gives output ", *group.output, ", whose ", layer.rows, " features are gathered");
    proposals_.try_emplace(layer.module, Proposal{nn::colwise(), text, {}});
    outputs_.emplace(layer.weight, layer.module);
  }

  void propose_embeddings() {
    for (const auto* node = program_.graph->first(); node != nullptr; node = node->next()) {
      const auto found = layers_.find(node);
      if (found == layers_.end() || !found->second.is_embedding) {
        continue;
      }
      const auto& layer = found->second;
      const auto tied = outputs_.find(layer.weight);
      if (tied != outputs_.end()) {
        proposals_.try_emplace(layer.module, Proposal{nn::rowwise(), "its rows are those of %", {tied->second}});
      } else if (layer.rows < kFewRows * ranks_) {
        left_out_.try_emplace(
            layer.module, Proposal{std::nullopt, obstacle_text(c10::str("it has ", layer.rows, " rows alone")), {}});
      } else if (!is_given(layer.input)) {
        left_out_.try_emplace(
            layer.module, Proposal{std::nullopt, obstacle_text("the program looks it up at places of its own"), {}});
      } else {
        const auto text = c10::str("a table of ", layer.rows, " rows, looked up by what the program is given");
        proposals_.try_emplace(layer.module, Proposal{nn::rowwise(), text, {}});
      }
    }
  }

  /// Whether a tensor is computed from user inputs, and not from their sizes alone.
  bool is_given(const Value* value) {
    const auto [found, is_new] = given_.try_emplace(value, false);
    if (!is_new) {
      return found->second;
    }
    bool is = false;
    if (value->producer() == nullptr) {
      is = std::any_of(program_.inputs.begin(), program_.inputs.end(), [&](const Input& input) {
        return input.kind == InputKind::User && input.value == value;
      });
    } else {
      const auto* node = value->producer();
      for (size_t i = 0; i < node->operand_count(); ++i) {
        is = is || (node->operand(i)->is_tensor() && is_given(node->operand(i)));
      }
    }
    given_[value] = is;
    return is;
  }

  /// A pattern that matches only modules with the same proposal.
  std::string pattern_of(const std::string& module, const std::map<std::string, Proposal>& all) {
    const auto& own = all.at(module);
    return widened(module, own.is_of_parameter ? parameter_paths_ : paths_, [&](const std::string& other) {
      const auto found = all.find(other);
      return found != all.end() && found->second.style == own.style &&
          found->second.is_of_parameter == own.is_of_parameter;
    });
  }

  ProposedPlan as_patterns() {
    for (const auto& module : modules_.modules()) {
      paths_.push_back(module.path);
    }
    // A pattern of parameters must match no module.
    parameter_paths_ = paths_;
    for (const auto& [path, place] : modules_.parameters()) {
      parameter_paths_.push_back(path);
    }
    for (const auto& [module, proposal] : proposals_) {
      left_out_.erase(module);
    }
    ProposedPlan result;
    std::set<std::string> seen;
    for (const auto* node = program_.graph->first(); node != nullptr; node = node->next()) {
      const auto layer = layers_.find(node);
      if (layer == layers_.end()) {
        continue;
      }
      const auto& module = layer->second.module;
      const auto add = [&](const auto& found) {
        const auto pattern = pattern_of(found->first, proposals_);
        if (seen.insert(pattern).second) {
          result.entries.push_back({pattern, *found->second.style, reason_text(found->second)});
        }
      };
      if (const auto found = proposals_.find(module); found != proposals_.end()) {
        add(found);
        const auto owner = layer->second.stack ? proposals_.find(layer->second.stack->owner) : proposals_.end();
        if (owner != proposals_.end() && owner->second.others == std::vector{module}) {
          add(owner);
        }
      } else if (const auto left = left_out_.find(module); left != left_out_.end()) {
        const auto pattern = pattern_of(module, left_out_);
        if (seen.insert(pattern).second) {
          result.left_out.push_back({pattern, left->second.reason});
        }
      }
    }
    return result;
  }

  std::string reason_text(const Proposal& proposal) {
    const auto at = proposal.reason.find('%');
    if (at == std::string::npos) {
      return proposal.reason + proposal.remark;
    }
    std::vector<std::string> others;
    for (const auto& other : proposal.others) {
      const auto pattern = proposals_.count(other) != 0 ? pattern_of(other, proposals_) : other;
      if (std::find(others.begin(), others.end(), pattern) == others.end()) {
        others.push_back(pattern);
      }
    }
    auto text = proposal.reason;
    const bool is_subject = text.find("until %") != std::string::npos;
    return text.replace(at, 1, c10::Join(", ", others) + (is_subject ? " sums them up" : "")) + proposal.remark;
  }

  const Program& program_;
  int64_t ranks_;
  ProgramModules modules_;
  Layers layers_;
  std::map<std::string, Proposal> proposals_; // by module
  std::map<std::string, Proposal> left_out_;
  std::map<std::string, std::string> outputs_; // by weight, the layer that computes an output with it
  std::unordered_map<const Value*, bool> given_;
  std::vector<std::string> paths_;
  std::vector<std::string> parameter_paths_; // with those of the modules
};

} // namespace

nn::ParallelPlan ProposedPlan::plan() const {
  std::vector<nn::ParallelPlan::Entry> result;
  for (const auto& entry : entries) {
    result.push_back({entry.pattern, entry.style});
  }
  std::vector<nn::ParallelPlan::Unit> fully_sharded;
  for (const auto& each : units) {
    fully_sharded.push_back(each.unit);
  }
  return nn::ParallelPlan(std::move(result), std::move(fully_sharded));
}

std::string ProposedPlan::plan_text() const {
  std::vector<std::string> lines;
  std::set<std::string> merged; // patterns of units that have a style, too
  const auto add = [&](const std::string& pattern, const nlohmann::ordered_json& json) {
    lines.push_back("  " + nlohmann::json(pattern).dump() + ": " + json.dump());
  };
  for (const auto& [pattern, style, reason] : entries) {
    const bool is_layer = style.kind == nn::StyleKind::Colwise || style.kind == nn::StyleKind::Rowwise;
    nlohmann::ordered_json json = nn::to_string(style.kind);
    if (!is_layer) {
      json = nlohmann::ordered_json::parse(style.to_string());
    } else if (style.heads || !style.parts.is_one()) {
      json = {{"style", nn::to_string(style.kind)}};
    }
    if (is_layer && style.heads) {
      json["heads"] = *style.heads;
    }
    if (is_layer && !style.parts.is_one()) {
      json["parts"] = nn::parts_json(style.parts);
    }
    for (const auto& [unit, reason_of_unit] : units) {
      if (unit.pattern == pattern) {
        json = json.is_string() ? nlohmann::ordered_json{{"style", json}} : json;
        json.update(nlohmann::ordered_json::parse(unit.to_string()));
        merged.insert(pattern);
      }
    }
    add(pattern, json);
  }
  for (const auto& [unit, reason] : units) {
    if (!merged.contains(unit.pattern)) {
      add(unit.pattern, nlohmann::ordered_json::parse(unit.to_string()));
    }
  }
  return lines.empty() ? "{}" : "{\n" + c10::Join(",\n", lines) + "\n}";
}

std::string ProposedPlan::to_json() const {
  nlohmann::ordered_json json = {{"plan", nlohmann::ordered_json::parse(plan_text())}};
  json["parameters"] = parameters;
  json["replicated"] = replicated;
  json["entries"] = nlohmann::json::array();
  for (const auto& entry : entries) {
    json["entries"].push_back({{"pattern", entry.pattern}, {"reason", entry.reason}});
  }
  for (const auto& [unit, reason] : units) {
    json["entries"].push_back({{"pattern", unit.pattern}, {"reason", reason}});
  }
  json["left_out"] = nlohmann::json::array();
  for (const auto& left : left_out) {
    json["left_out"].push_back({{"pattern", left.pattern}, {"reason", left.reason}});
  }
  return json.dump();
}

ProposedPlan propose_plan(const Program& program, int64_t ranks) {
  auto canonical = clone(program);
  canonicalize(*canonical.graph);
  auto proposed = Proposing(canonical, ranks).run();
  add_replicated_parameters(proposed, canonical, ranks);
  return proposed;
}

} // namespace weft::graph
