#include "tests/integration/samples.h"

namespace weft::testing {

void add_creation_samples(Samples& samples) {
  samples.add("aten::zeros_like", {{5, 4}}, [](const Inputs& t) { return at::zeros_like(t[0]) + t[0]; });
  samples.add("aten::ones_like", {{5, 4}}, [](const Inputs& t) { return at::ones_like(t[0]) * t[0]; });
  samples.add("aten::full_like", {{}}, [](const Inputs& t) { return at::full_like(t[0], 3) * t[0]; });
  samples.add("aten::empty_like", {{5, 4}}, [](const Inputs& t) { return at::empty_like(t[0]).fill_(2) + t[0]; });
  samples.add("aten::new_zeros", {{5, 4}}, [](const Inputs& t) { return t[0].new_zeros({5, 4}) + t[0]; });
  samples.add("aten::new_ones", {{5, 4}}, [](const Inputs& t) { return t[0].new_ones({3, 2}); });
  samples.add("aten::new_full", {{5, 4}}, [](const Inputs& t) { return t[0].new_full({}, 3) * t[0]; });
  samples.add("aten::new_empty_strided", {{5, 4}}, [](const Inputs& t) {
    return t[0].new_empty_strided({5, 4}, {4, 1}).zero_() + t[0];
  });
  samples.add("aten::new_empty", {{5, 4}}, [](const Inputs& t) { return t[0].new_empty({5, 4}).zero_() + t[0]; });
}

} // namespace weft::testing
