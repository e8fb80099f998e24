#include "tests/integration/sample_inputs.h"

namespace weft::testing {

namespace {

using Indices = c10::List<std::optional<at::Tensor>>;

/// No two are equal, so that it is known which one stays.
at::Tensor different(int64_t count, int64_t end) {
  return at::randperm(end, at::detail::createCPUGenerator(3), at::kLong).slice(0, 0, count).contiguous();
}

void add_lookups(Samples& samples) {
  const auto values = sample_values({5, 4}, 1);
  samples.add_with("aten::index_select", {values, whole_numbers({3}, 4)}, [](const Inputs& t) {
    return Inputs{t[0].index_select(1, t[1])};
  });
  samples.add_with("aten::index_select", {values, whole_numbers({6}, 5)}, [](const Inputs& t) {
    return Inputs{t[0].index_select(0, t[1])};
  });
  samples.add_with(
      "aten::gather", {values, whole_numbers({5, 3}, 4)}, [](const Inputs& t) { return Inputs{t[0].gather(1, t[1])}; });
  samples.add_with(
      "aten::gather", {values, whole_numbers({2, 3}, 4)}, [](const Inputs& t) { return Inputs{t[0].gather(1, t[1])}; });
  samples.add_with("aten::gather", {values, whole_numbers({5, 1}, 4)}, [](const Inputs& t) {
    return Inputs{at::take_along_dim(t[0], t[1], 1)};
  });
  samples.add_with(
      "aten::take", {values, whole_numbers({3, 2}, 20)}, [](const Inputs& t) { return Inputs{t[0].take(t[1])}; });
}

void add_scatters(Samples& samples) {
  const auto values = sample_values({5, 4}, 1);
  const auto source = sample_values({5, 3}, 2);
  const auto columns = different(3, 4).expand({5, 3}).contiguous();
  const auto equal_columns = whole_numbers({5, 3}, 4);
  samples.add_with(
      "aten::scatter", {values, columns, source}, [](const Inputs& t) { return Inputs{t[0].scatter(1, t[1], t[2])}; });
  samples.add_with(
      "aten::scatter", {values, columns}, [](const Inputs& t) { return Inputs{t[0].scatter(1, t[1], 2)}; });
  samples.add_with("aten::scatter", {values, equal_columns, source}, without_gradients([](const Inputs& t) {
                     return Inputs{t[0].scatter(1, t[1], t[2], "add")};
                   }));
  samples.add_with("aten::scatter_add", {values, equal_columns, source}, [](const Inputs& t) {
    return Inputs{t[0].scatter_add(1, t[1], t[2])};
  });
  samples.add_with("aten::scatter_add", {values, whole_numbers({2, 4}, 5), source}, [](const Inputs& t) {
    return Inputs{t[0].scatter_add(0, t[1].slice(1, 0, 3), t[2])};
  });
  samples.add_with("aten::scatter_reduce", {values, equal_columns, source}, [](const Inputs& t) {
    return Inputs{t[0].scatter_reduce(1, t[1], t[2], "amax")};
  });
}

void add_index_into(Samples& samples) {
  const auto values = sample_values({5, 4}, 1);
  const auto source = sample_values({3, 4}, 2);
  samples.add_with("aten::index_add", {values, whole_numbers({3}, 5), source}, [](const Inputs& t) {
    return Inputs{t[0].index_add(0, t[1], t[2], 2)};
  });
  samples.add_with("aten::index_copy", {values, different(3, 5), source}, [](const Inputs& t) {
    return Inputs{t[0].index_copy(0, t[1], t[2])};
  });
  samples.add_with("aten::index_fill", {values, different(2, 4)}, [](const Inputs& t) {
    return Inputs{t[0].index_fill(1, t[1], 2)};
  });
  samples.add_with("aten::index_fill", {values, different(2, 4), sample_values({}, 2)}, [](const Inputs& t) {
    return Inputs{t[0].index_fill(1, t[1], t[2])};
  });
  samples.add_with(
      "aten::index_reduce", {values, whole_numbers({3}, 5), source},
      without_gradients([](const Inputs& t) { return Inputs{t[0].index_reduce(0, t[1], t[2], "amin")}; }));
}

void add_index_lists(Samples& samples) {
  const auto values = sample_values({5, 4, 3}, 1);
  samples.add_with(
      "aten::index", {values, whole_numbers({2}, 5)}, [](const Inputs& t) { return Inputs{t[0].index({t[1]})}; });
  samples.add_with("aten::index", {values, whole_numbers({2, 1}, 4), whole_numbers({6}, 3)}, [](const Inputs& t) {
    return Inputs{at::index(t[0], Indices({std::nullopt, t[1], t[2]}))};
  });
  samples.add_with("aten::index", {values, whole_numbers({2}, 5), whole_numbers({2}, 3)}, [](const Inputs& t) {
    return Inputs{at::index(t[0], Indices({t[1], std::nullopt, t[2]}))};
  });
  samples.add_with(
      "aten::index", {values, whole_numbers({5, 4}, 2).to(at::kBool)},
      without_gradients([](const Inputs& t) { return Inputs{t[0].index({t[1]})}; }));
  samples.add_with(
      "aten::index_put", {values, whole_numbers({2}, 5), sample_values({2, 1, 3}, 2)},
      [](const Inputs& t) { return Inputs{t[0].index_put({t[1]}, t[2], /*accumulate=*/true)}; });
  samples.add_with("aten::index_put", {values, different(2, 4), sample_values({3}, 2)}, [](const Inputs& t) {
    return Inputs{at::index_put(t[0], Indices({std::nullopt, t[1]}), t[2])};
  });
  samples.add_with("aten::index_put", {values, different(2, 4), sample_values({2, 3}, 2)}, [](const Inputs& t) {
    return Inputs{at::index_put(t[0], Indices({std::nullopt, t[1]}), t[2], /*accumulate=*/true)};
  });
}

} // namespace

void add_indexing_samples(Samples& samples) {
  add_lookups(samples);
  add_scatters(samples);
  add_index_into(samples);
  add_index_lists(samples);
}

} // namespace weft::testing
