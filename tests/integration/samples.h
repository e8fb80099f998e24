#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

namespace weft::testing {

/// One call to be checked: what goes in, and how it is called.
struct Sample {
  std::string name; // "aten::mm [5,4] [4,3]"
  std::vector<at::Tensor> inputs;
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> call;
};

/// Samples of every operator that has a rule: written by hand where arguments matter, made up from the schema elsewhere.
std::vector<Sample> all_samples();

} // namespace weft::testing
