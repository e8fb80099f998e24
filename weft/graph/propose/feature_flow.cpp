#include "weft/graph/propose/feature_flow.h"

namespace weft::graph {

namespace {

using Dim = FeatureDims::Dim;

bool holds(const Dim& dim, int64_t step) {
  return step != 0 && std::any_of(dim.begin(), dim.end(), [&](const auto& stretch) { return stretch.step == step; });
}

/// Divides the stretches of a dim among its factors; none if their boundaries do not match.
std::optional<std::vector<Dim>> by_factors(
    const Dim& dim,
    const Rule::Dim& factors,
    const std::vector<int64_t>& sizes) {
  std::vector<Dim> result;
  auto left = dim;
  size_t next = 0;
  for (const auto factor : factors) {
    Dim taken;
    for (auto wanted = sizes[factor]; wanted > 1;) {
      if (next == left.size()) {
        return std::nullopt;
      }
      auto& stretch = left[next];
      if (wanted % stretch.size == 0) {
        wanted /= stretch.size;
        taken.push_back(stretch);
        ++next;
      } else if (stretch.size % wanted == 0) {
        const auto inner = stretch.size / wanted;
        taken.push_back({wanted, stretch.step * inner});
        stretch.size = inner;
        wanted = 1;
      } else {
        return std::nullopt;
      }
    }
    result.push_back(std::move(taken));
  }
  return result;
}

/// The stretches of every factor of a rule, as one operand has them. None if the outermost features are in a dim that
/// cannot be sharded.
std::optional<std::vector<Dim>> factors_of(const Rule& rule, size_t operand, const FeatureDims& features) {
  std::vector<Dim> result(rule.sizes.size());
  const auto& dims = rule.inputs[operand];
  for (size_t d = 0; d < features.dims.size() && d < dims.size(); ++d) {
    const auto found = dims[d].empty() ? std::nullopt : by_factors(features.dims[d], dims[d], rule.sizes);
    if (!found) {
      if (holds(features.dims[d], features.outermost())) {
        return std::nullopt;
      }
      continue;
    }
    for (size_t i = 0; i < dims[d].size(); ++i) {
      result[dims[d][i]] = (*found)[i];
    }
  }
  return result;
}

int64_t outermost_of(const std::vector<Dim>& dims) {
  int64_t outermost = 0;
  for (const auto& dim : dims) {
    for (const auto& stretch : dim) {
      outermost = std::max(outermost, stretch.step);
    }
  }
  return outermost;
}

Rule::Factor factor_with(const std::vector<Dim>& factors, int64_t step) {
  for (size_t f = 0; f < factors.size(); ++f) {
    if (holds(factors[f], step)) {
      return static_cast<Rule::Factor>(f);
    }
  }
  return -1;
}

} // namespace

FeatureDims FeatureDims::last(c10::IntArrayRef sizes) {
  FeatureDims result;
  for (const auto size : sizes) {
    result.dims.push_back({{size, 0}});
  }
  result.dims.back()[0].step = 1;
  return result;
}

int64_t FeatureDims::outermost() const {
  return outermost_of(dims);
}

int64_t FeatureDims::outermost_size() const {
  const auto step = outermost();
  for (const auto& dim : dims) {
    for (const auto& stretch : dim) {
      if (step != 0 && stretch.step == step) {
        return stretch.size;
      }
    }
  }
  return 0;
}

bool FeatureDims::leads_last_dim() const {
  for (const auto& stretch : dims.back()) {
    if (stretch.size != 1) {
      return stretch.step != 0 && stretch.step == outermost();
    }
  }
  return false;
}

FeaturePassage pass_features(const Rule& rule, size_t operand, const FeatureDims& features, bool is_view) {
  auto factors = factors_of(rule, operand, features);
  if (!factors) {
    return {FeaturePassage::Kind::Stopped};
  }
  auto parts = features.parts;
  for (;;) {
    const auto step = outermost_of(*factors);
    const auto factor = factor_with(*factors, step);
    if (factor < 0) {
      return {FeaturePassage::Kind::Stopped};
    }
    auto& stretches = (*factors)[factor];
    if (rule.is_unsharded(factor)) {
      // A view that leaves a dim out takes one of the projections that the layer computes jointly.
      if (!is_view || !rule.is_reduced(factor) || stretches.size() != 1) {
        return {FeaturePassage::Kind::Stopped};
      }
      parts *= stretches[0].size;
      stretches.clear();
      continue;
    }
    if (rule.is_reduced(factor)) {
      return {FeaturePassage::Kind::Reduced, factor};
    }
    FeaturePassage passage{FeaturePassage::Kind::Passes, factor};
    for (const auto& output : rule.outputs) {
      FeatureDims given;
      given.parts = parts;
      for (const auto& dim : output) {
        Dim stretch;
        for (const auto f : dim) {
          const auto& of_factor = (*factors)[f];
          if (of_factor.empty()) {
            stretch.push_back({rule.sizes[f], 0});
          }
          stretch.insert(stretch.end(), of_factor.begin(), of_factor.end());
        }
        given.dims.push_back(std::move(stretch));
      }
      const bool has_it = Rule::has(output, factor);
      passage.outputs.push_back(has_it ? std::optional<FeatureDims>(std::move(given)) : std::nullopt);
    }
    return passage;
  }
}

} // namespace weft::graph
