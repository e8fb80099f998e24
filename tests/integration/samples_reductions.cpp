#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

using Dims = std::vector<int64_t>;

void add_extrema(Samples& samples) {
  samples.add("aten::amax", {{5, 4}}, [](const Inputs& t) { return t[0].amax({0}); });
  samples.add("aten::amax", {{4, 3}}, [](const Inputs& t) { return t[0].amax({0, 1}, /*keepdim=*/true); });
  samples.add("aten::amax", {{2, 6}}, [](const Inputs& t) { return t[0].amax({0}); });
  samples.add("aten::amin", {{5, 4}}, [](const Inputs& t) { return t[0].amin({-1}); });
  samples.add("aten::max", {{5, 4}}, [](const Inputs& t) { return t[0].max(); });
  samples.add("aten::min", {{}}, [](const Inputs& t) { return t[0].min(); });
  samples.add_with("aten::max", floats({{5, 4}}), [](const Inputs& t) { return results(t[0].max(1)); });
  samples.add_with("aten::min", floats({{5, 4}}), [](const Inputs& t) { return results(t[0].min(0, true)); });
  samples.add_with("aten::aminmax", floats({{5, 4}}), [](const Inputs& t) { return results(t[0].aminmax(1)); });
  samples.add("aten::argmax", {{5, 4}}, [](const Inputs& t) { return t[0].argmax(1); });
  samples.add("aten::argmin", {{5, 4}}, [](const Inputs& t) { return t[0].argmin(); });
  samples.add("aten::median", {{5, 3}}, [](const Inputs& t) { return t[0].median(); });
  samples.add_with("aten::median", floats({{5, 3}}), [](const Inputs& t) { return results(t[0].median(0)); });
}

void add_truth(Samples& samples) {
  const auto truth = whole_numbers({5, 4}, 2).to(at::kBool);
  samples.add_with("aten::any", {truth}, [](const Inputs& t) { return Inputs{t[0].any(1)}; });
  samples.add_with("aten::any", {truth}, [](const Inputs& t) { return Inputs{at::any(t[0], Dims{})}; });
  samples.add_with("aten::all", {truth}, [](const Inputs& t) { return Inputs{t[0].all()}; });
  samples.add_with("aten::all", {truth}, [](const Inputs& t) { return Inputs{at::all(t[0], Dims{0, 1}, true)}; });
  samples.add_with(
      "aten::any", {sample_values({5, 4}, 1)}, [](const Inputs& t) { return Inputs{(t[0] - 0.5).any(1)}; });
  samples.add_with("aten::sum", {truth}, [](const Inputs& t) { return Inputs{t[0].sum(Dims{0})}; });
  samples.add_with("aten::count_nonzero", {truth}, [](const Inputs& t) { return Inputs{t[0].count_nonzero(Dims{1})}; });
  samples.add_with("aten::count_nonzero", {truth}, [](const Inputs& t) { return Inputs{t[0].count_nonzero()}; });
  samples.add_with(
      "aten::histc", {sample_values({5, 4}, 1)}, [](const Inputs& t) { return Inputs{t[0].histc(4, -1, 2)}; });
}

void add_moments(Samples& samples) {
  samples.add("aten::mean", {{5, 4}}, [](const Inputs& t) { return t[0].mean(Dims{0}); });
  samples.add("aten::mean", {{5, 4}}, [](const Inputs& t) { return t[0].mean(); });
  samples.add("aten::mean", {{4, 1, 6}}, [](const Inputs& t) { return t[0].mean(Dims{0, -1}, /*keepdim=*/true); });
  samples.add("aten::var", {{5, 4}}, [](const Inputs& t) { return t[0].var(Dims{1}, /*unbiased=*/false); });
  samples.add("aten::std", {{5, 4}}, [](const Inputs& t) { return t[0].std(); });
  samples.add_with(
      "aten::var_mean", floats({{5, 4}}), [](const Inputs& t) { return results(at::var_mean(t[0], Dims{0})); });
  samples.add_with("aten::std_mean", floats({{6, 4}}), [](const Inputs& t) { return results(at::std_mean(t[0])); });
  samples.add("aten::logsumexp", {{5, 4}}, [](const Inputs& t) { return t[0].logsumexp(Dims{1}); });
  samples.add("aten::linalg_vector_norm", {{5, 4}}, [](const Inputs& t) { return at::linalg_vector_norm(t[0], 3); });
  samples.add("aten::norm", {{5, 4}}, [](const Inputs& t) { return t[0].norm(2, Dims{0}, /*keepdim=*/true); });
  samples.add("aten::renorm", {{5, 4}}, [](const Inputs& t) { return t[0].renorm(2, 1, 0.5); });
}

void add_scans(Samples& samples) {
  samples.add("aten::cumsum", {{5, 4}}, [](const Inputs& t) { return t[0].cumsum(1); });
  samples.add("aten::cumsum_", {{5, 4}}, [](const Inputs& t) { return t[0].clone().cumsum_(1); });
  samples.add("aten::cumsum", {{}}, [](const Inputs& t) { return t[0].cumsum(0); });
  samples.add("aten::cumprod", {{5, 4}}, [](const Inputs& t) { return t[0].cumprod(0); });
  samples.add("aten::logcumsumexp", {{5, 4}}, [](const Inputs& t) { return t[0].logcumsumexp(-1); });
  samples.add_with("aten::cummax", floats({{5, 4}}), [](const Inputs& t) { return results(t[0].cummax(1)); });
  samples.add_with("aten::cummin", floats({{5, 4}}), [](const Inputs& t) { return results(t[0].cummin(0)); });
}

} // namespace

void add_reduction_samples(Samples& samples) {
  samples.add("aten::sum", {{5, 4}}, [](const Inputs& t) { return t[0].sum(Dims{1}, /*keepdim=*/true); });
  samples.add("aten::sum", {{5, 4}}, [](const Inputs& t) { return t[0].sum(); });
  samples.add("aten::sum", {{1, 6}}, [](const Inputs& t) { return t[0].sum(Dims{0}); });
  samples.add("aten::sum", {{}}, [](const Inputs& t) { return t[0].sum(Dims{0}); });
  samples.add_with("aten::sum", floats({{5, 4}}), without_gradients([](const Inputs& t) {
                     return Inputs{(t[0] * 9).sum(Dims{1}, /*keepdim=*/false, at::kLong)};
                   }));
  samples.add("aten::nansum", {{5, 4}}, [](const Inputs& t) { return t[0].nansum(Dims{1}); });
  samples.add("aten::prod", {{5, 4}}, [](const Inputs& t) { return t[0].prod(1); });
  samples.add("aten::prod", {{2, 3}}, [](const Inputs& t) { return t[0].prod(); });
  // Its gradient is put into a plain tensor of zeros, which knows of no mesh.
  samples.add_with(
      "aten::trace", floats({{5, 4}}), without_gradients([](const Inputs& t) { return Inputs{t[0].trace()}; }));
  samples.add("aten::sum", {{5, 4, 3}}, [](const Inputs& t) { return t[0].sum_to_size({5, 1, 3}); });
  add_extrema(samples);
  add_truth(samples);
  add_moments(samples);
  add_scans(samples);
}

} // namespace weft::testing
