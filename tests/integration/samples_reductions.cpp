#include "tests/integration/samples.h"

namespace weft::testing {

void add_reduction_samples(Samples& samples) {
  samples.add(
      "aten::sum", {{5, 4}}, [](const Inputs& t) { return t[0].sum(std::vector<int64_t>{1}, /*keepdim=*/true); });
  samples.add("aten::sum", {{5, 4}}, [](const Inputs& t) { return t[0].sum(); });
  samples.add("aten::amax", {{5, 4}}, [](const Inputs& t) { return t[0].amax({0}); });
  samples.add("aten::prod", {{5, 4}}, [](const Inputs& t) { return t[0].prod(1); });
  samples.add("aten::mean", {{5, 4}}, [](const Inputs& t) { return t[0].mean(std::vector<int64_t>{0}); });
  samples.add("aten::mean", {{5, 4}}, [](const Inputs& t) { return t[0].mean(); });
}

} // namespace weft::testing
