#include "weft/nn/parallel.h"

#include <torch/nn/module.h>

namespace weft::nn {

void set_replicates_plain(torch::nn::Module& module, bool replicates_plain) {
  for (const auto& each : module.modules()) {
    if (auto* boundaries = dynamic_cast<Boundaries*>(each.get())) {
      boundaries->set_replicates_plain(replicates_plain);
    }
  }
}

} // namespace weft::nn
