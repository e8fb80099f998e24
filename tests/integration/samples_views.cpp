#include "tests/integration/samples.h"

namespace weft::testing {

void add_view_samples(Samples& samples) {
  samples.add("aten::view", {{12, 8}}, [](const Inputs& t) { return t[0].view({16, 6}); });
  samples.add("aten::view", {{6, 4}}, [](const Inputs& t) { return t[0].view({2, 3, -1}); });
  samples.add("aten::view", {{2, 3, 4}}, [](const Inputs& t) { return t[0].view({6, 4}); });
  samples.add("aten::view", {{2, 3, 4}}, [](const Inputs& t) { return t[0].view({24}); });
  samples.add("aten::view", {{5, 1, 4}}, [](const Inputs& t) { return t[0].view({5, 4, 1}); });
  samples.add("aten::transpose", {{2, 3, 4}}, [](const Inputs& t) { return t[0].transpose(0, -1); });
  samples.add("aten::t", {{5, 4}}, [](const Inputs& t) { return t[0].t(); });
  samples.add("aten::permute", {{2, 3, 4}}, [](const Inputs& t) { return t[0].permute({2, 0, 1}); });
  samples.add("aten::unsqueeze", {{5, 4}}, [](const Inputs& t) { return t[0].unsqueeze(1); });
  samples.add("aten::squeeze", {{5, 1, 4}}, [](const Inputs& t) { return t[0].squeeze(1); });
  samples.add("aten::squeeze", {{1, 5, 1}}, [](const Inputs& t) { return t[0].squeeze(); });
  samples.add("aten::expand", {{5, 1}}, [](const Inputs& t) { return t[0].expand({3, 5, 4}); });
  samples.add("aten::select", {{5, 4}}, [](const Inputs& t) { return t[0].select(1, 2); });
  samples.add("aten::slice", {{5, 4}}, [](const Inputs& t) { return t[0].slice(0, 1, 4, 2); });
}

} // namespace weft::testing
