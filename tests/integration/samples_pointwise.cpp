#include "tests/integration/samples.h"

namespace weft::testing {

void add_pointwise_samples(Samples& samples) {
  // Away from where the quotient jumps.
  samples.add("aten::remainder", {{5, 4}, {5, 4}}, [](const Inputs& t) { return at::remainder(t[0], t[1] + 2); });
  samples.add("aten::fmod", {{5, 4}, {4}}, [](const Inputs& t) { return at::fmod(t[0], t[1] + 2); });
  samples.add("aten::where", {{5, 4}, {5, 4}}, [](const Inputs& t) { return at::where(t[0] > t[1], t[0], t[1]); });
}

} // namespace weft::testing
