#include "tests/integration/sample_inputs.h"

namespace weft::testing {

void add_sorting_samples(Samples& samples) {
  samples.add_with("aten::sort", floats({{5, 4}}), [](const Inputs& t) { return results(t[0].sort(1)); });
  samples.add_with("aten::sort", floats({{}}), [](const Inputs& t) { return results(t[0].sort()); });
  samples.add("aten::sort", {{5, 4}}, [](const Inputs& t) { return t[0].argsort(int64_t{0}); });
  samples.add_with("aten::topk", floats({{5, 4}}), [](const Inputs& t) { return results(t[0].topk(2, 0)); });
  samples.add_with("aten::kthvalue", floats({{5, 4}}), [](const Inputs& t) { return results(t[0].kthvalue(2, 1)); });
  samples.add_with("aten::mode", floats({{5, 4}}), [](const Inputs& t) { return results(t[0].mode(0, true)); });
  samples.add("aten::bucketize", {{5, 4}, {3}}, [](const Inputs& t) { return at::bucketize(t[0], t[1].cumsum(0)); });
  samples.add(
      "aten::searchsorted", {{3}, {5, 4}}, [](const Inputs& t) { return at::searchsorted(t[0].cumsum(0), t[1]); });
  samples.add(
      "aten::searchsorted", {{5, 3}, {5, 4}}, [](const Inputs& t) { return at::searchsorted(t[0].cumsum(1), t[1]); });
  samples.add_with("aten::isin", {whole_numbers({5, 4}, 9, 1), whole_numbers({3}, 9, 2)}, [](const Inputs& t) {
    return Inputs{at::isin(t[0], t[1])};
  });
}

} // namespace weft::testing
