#include "tests/integration/oracle_missing.h"

#include "tests/integration/oracle_calls.h"
#include "tests/support/layout_cases.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/fake_world.h"
#include "weft/tensor/distribute.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace weft::testing {

namespace {

constexpr int64_t kRanks = 2;
constexpr size_t kMostCombinations = 128;

enum class ValueKind : uint8_t { Small, Wide, Coarse };

/// Other values for the same call: small positive ones, widely spread ones of both signs, and such with equal ones and
/// zeros among them. What is not a float is put in another order.
Sample with_other_values(const Sample& sample, ValueKind kind, int64_t seed) {
  auto other = sample;
  for (auto& input : other.inputs) {
    if (input.is_floating_point()) {
      const auto values = sample_values(input.sizes(), ++seed).to(input.scalar_type());
      const auto wide = (values - 0.5) * 7;
      input = kind == ValueKind::Small ? values : kind == ValueKind::Wide ? wide : wide.round();
    } else if (input.dim() > 0) {
      input = input.roll(seed, 0);
    }
  }
  return other;
}

std::optional<Inputs> try_call(const Sample& sample, const Inputs& inputs) {
  Inputs own;
  for (const auto& input : inputs) {
    own.push_back(input.clone());
  }
  try {
    Inputs outputs;
    for (const auto& output : sample.call(own)) {
      outputs.push_back(output.defined() ? output.clone() : output);
    }
    return outputs;
  } catch (const std::exception&) {
    return std::nullopt; // the operator does not take such parts, or such values
  }
}

/// A sample with what it gives on one device.
struct Trial {
  Sample sample;
  Inputs expected;
};

std::vector<Trial> make_trials(const Sample& sample) {
  std::vector<Trial> trials;
  std::vector<Sample> variants = {sample};
  for (const int64_t seed : {100, 200}) {
    for (const auto kind : {ValueKind::Small, ValueKind::Wide, ValueKind::Coarse}) {
      variants.push_back(with_other_values(sample, kind, seed));
    }
  }
  for (const auto& variant : variants) {
    if (auto expected = try_call(variant, variant.inputs)) {
      trials.push_back({variant, std::move(*expected)});
    }
  }
  return trials;
}

/// Whether all trials give the same single value: nothing can be learned from such a call.
bool is_constant(const std::vector<Trial>& trials, size_t output) {
  const auto& first = trials[0].expected[output];
  if (!first.defined() || first.numel() == 0) {
    return true;
  }
  const auto value = first.flatten()[0];
  return std::all_of(trials.begin(), trials.end(), [&](const Trial& trial) {
    return trial.expected[output].eq(value).logical_or(trial.expected[output].isnan()).all().item<bool>();
  });
}

bool all_constant(const std::vector<Trial>& trials) {
  for (size_t o = 0; o < trials[0].expected.size(); ++o) {
    if (!is_constant(trials, o)) {
      return false;
    }
  }
  return true;
}

/// Terms that have nothing to do with the value or with those of other inputs, so that none of them gives it away.
at::Tensor local_input(const at::Tensor& global, const Layout& layout, int64_t rank, size_t number) {
  if (!layout[0].is_partial()) {
    return local_by_definition(global, layout, {kRanks}, {rank});
  }
  auto first =
      ((sample_values(global.sizes(), /*seed=*/77 + static_cast<int64_t>(number)) - 0.6) * 9).to(global.scalar_type());
  return rank == 0 ? first : global - first;
}

std::vector<Inputs> local_inputs(const Sample& sample, const std::vector<Layout>& layouts) {
  std::vector<Inputs> ranks(kRanks);
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    for (size_t i = 0; i < layouts.size(); ++i) {
      ranks[rank].push_back(local_input(sample.inputs[i], layouts[i], rank, i));
    }
  }
  return ranks;
}

/// Whether the two ranks' results, read as this placement, are parts of what is expected.
bool is_right(const std::vector<at::Tensor>& locals, const Placement& placement, const at::Tensor& expected) {
  if (placement.is_partial()) {
    const bool fits = std::all_of(locals.begin(), locals.end(), [&](const at::Tensor& local) {
      return local.sizes() == expected.sizes() && local.scalar_type() == expected.scalar_type();
    });
    const auto op = placement.reduce_op();
    const bool has_op = op == ReduceOp::Avg ? expected.is_floating_point()
                                            : !expected.is_complex() || op == ReduceOp::Sum || op == ReduceOp::Product;
    if (!fits || !has_op) {
      return false;
    }
    const auto reduced = reduce_partials(locals, Layout({placement}), {kRanks})[0];
    return is_same(reduced.to(expected.scalar_type()), expected);
  }
  for (int64_t rank = 0; rank < kRanks; ++rank) {
    if (!is_same(locals[rank], local_by_definition(expected, Layout({placement}), {kRanks}, {rank}))) {
      return false;
    }
  }
  return true;
}

/// From the most to the least useful: what is right as R is right as an average, too.
std::vector<Placement> output_placements(const at::Tensor& output) {
  std::vector<Placement> placements = {Replicate()};
  for (int64_t d = 0; d < output.dim(); ++d) {
    placements.push_back(Shard(d));
  }
  for (const auto op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product}) {
    placements.push_back(Partial(op));
  }
  return placements;
}

/// For every output, the placements as which it is right in this trial, among those that were so far.
bool keep_right_ones(
    const Trial& trial,
    const std::vector<Layout>& layouts,
    std::vector<std::vector<Placement>>& possible) {
  std::vector<Inputs> ranks;
  for (const auto& inputs : local_inputs(trial.sample, layouts)) {
    auto outputs = try_call(trial.sample, inputs);
    if (!outputs || outputs->size() != trial.expected.size()) {
      return false;
    }
    ranks.push_back(std::move(*outputs));
  }
  for (size_t o = 0; o < possible.size(); ++o) {
    std::erase_if(possible[o], [&](const Placement& placement) {
      return trial.expected[o].defined() && !is_right({ranks[0][o], ranks[1][o]}, placement, trial.expected[o]);
    });
    if (possible[o].empty()) {
      return false;
    }
  }
  return true;
}

/// The placement of every output that is right in all trials; nothing where an output has none.
std::optional<std::vector<Layout>> right_outputs(const std::vector<Trial>& trials, const std::vector<Layout>& layouts) {
  std::vector<std::vector<Placement>> possible;
  for (const auto& output : trials[0].expected) {
    possible.push_back(output.defined() ? output_placements(output) : std::vector<Placement>{Replicate()});
  }
  for (const auto& trial : trials) {
    if (!keep_right_ones(trial, layouts, possible)) {
      return std::nullopt;
    }
  }
  std::vector<Layout> found;
  for (const auto& placements : possible) {
    found.push_back(Layout({placements[0]}));
  }
  return found;
}

/// A dim of size 1 is not worth sharding, terms of positions are no positions, and all replicated is always offered.
bool is_of_interest(const Sample& sample, const std::vector<Layout>& layouts) {
  bool all_replicated = true;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& placement = layouts[i][0];
    all_replicated = all_replicated && placement.is_replicate();
    if ((placement.is_shard() && sample.inputs[i].size(placement.dim()) < kRanks) ||
        (placement.is_partial() && !sample.inputs[i].is_floating_point())) {
      return false;
    }
  }
  return !all_replicated;
}

/// Operators that others call do not all look whether shapes fit and positions are there, and read past the end where
/// not. For them, inputs that have a size in common must all be sharded by it or none, and none holds positions. Backward
/// forms of more than two dims (convolution, pooling, attention) are not tried at all.
bool is_safe(const Sample& sample, const std::vector<Layout>& layouts) {
  constexpr std::array kUnchecked = {"backward", "norm",   "attention", "loss", "embedding", "conv",
                                     "pool",     "sample", "lstm",      "gru",  "rnn"};
  const bool is_unchecked = std::any_of(kUnchecked.begin(), kUnchecked.end(), [&](const char* part) {
    return sample.name.find(part) != std::string::npos;
  });
  std::map<int64_t, bool> is_cut; // by size
  for (size_t i = 0; is_unchecked && i < layouts.size(); ++i) {
    const bool is_spatial = sample.inputs[i].dim() > 2 && sample.name.find("backward") != std::string::npos;
    if (sample.inputs[i].scalar_type() == at::kLong || is_spatial) {
      return false;
    }
    std::map<int64_t, bool> is_cut_here;
    for (int64_t d = 0; d < sample.inputs[i].dim(); ++d) {
      auto& cut = is_cut_here[sample.inputs[i].size(d)];
      cut = cut || layouts[i][0].is_shard(d);
    }
    for (const auto& [size, cut] : is_cut_here) {
      if (size > 1 && is_cut.emplace(size, cut).first->second != cut) {
        return false;
      }
    }
  }
  return true;
}

/// Whether dispatch runs the call on such inputs without communication. Alone: no decision depends on values.
bool runs_without_communication(const Sample& sample, const std::vector<Layout>& layouts) {
  static const auto world = make_fake_world(kRanks);
  const WorldScope scope(world);
  const auto mesh = init_device_mesh("cpu", {kRanks}, {"a"});
  Inputs inputs;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const auto& global = sample.inputs[i];
    const auto local = local_by_definition(global, layouts[i], mesh.shape(), mesh.coordinate()).clone();
    inputs.push_back(from_local(local, mesh, layouts[i], global.sizes()));
  }
  const CommLog log(mesh);
  try {
    sample.call(inputs);
  } catch (const std::exception&) {
    return false;
  }
  return log.calls() == 0;
}

} // namespace

std::vector<FoundStrategy> find_strategies(const Sample& sample) {
  const auto trials = make_trials(sample);
  if (trials.size() < 2 || all_constant(trials)) {
    return {};
  }
  std::vector<FoundStrategy> found;
  for (const auto& layouts : combinations(sample, /*mesh_ndim=*/1, {ReduceOp::Sum}, kMostCombinations)) {
    if (!is_of_interest(sample, layouts) || !is_safe(sample, layouts)) {
      continue;
    }
    if (const auto outputs = right_outputs(trials, layouts)) {
      found.push_back({to_string(layouts) + " -> " + to_string(*outputs), runs_without_communication(sample, layouts)});
    }
  }
  return found;
}

} // namespace weft::testing
