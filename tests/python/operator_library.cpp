#include "weft/rules/register_rule.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace {

at::Tensor scaled(const at::Tensor& x, const at::Tensor& by) {
  return x * by;
}

at::Tensor reversed(const at::Tensor& x) {
  return x.flip(-1);
}

/// As a library of a user's: operators with kernels, one of which has a rule.
TORCH_LIBRARY(weft_test_library, m) {
  m.def("scaled(Tensor x, Tensor by) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("reversed(Tensor x) -> Tensor", {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(weft_test_library, CompositeExplicitAutograd, m) {
  m.impl("scaled", &scaled);
  m.impl("reversed", &reversed);
}

const bool kScaled = weft::register_rule("weft_test_library::scaled", {"([a,b],[b])->([a,b]) linear={0}"});

} // namespace
