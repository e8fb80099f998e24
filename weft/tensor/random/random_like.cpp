#include "weft/tensor/random/random_like.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/random/recorded_draws.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>

namespace weft {

at::Tensor new_random(const at::Tensor& like, c10::ScalarType dtype, std::optional<c10::Device> device) {
  const auto& spec = *spec_of(like);
  const auto own = TensorSpec::make(spec.mesh(), without_partial(spec.layout()), spec.sizes(), dtype);
  const auto options = at::TensorOptions(dtype).device(device.value_or(like.device()));
  return make_dtensor(at::empty(own->local_shape_and_offset().shape, options), own);
}

namespace {

using Generator = std::optional<at::Generator>;

at::Tensor bernoulli_of_self(const at::Tensor& self, Generator generator) {
  return new_random(self, self.scalar_type()).bernoulli_(self, generator);
}

at::Tensor bernoulli_of_number(const at::Tensor& self, double p, Generator generator) {
  return new_random(self, self.scalar_type()).bernoulli_(p, generator);
}

using Dtype = std::optional<at::ScalarType>;
using Storage = std::optional<c10::Layout>;
using Device = std::optional<c10::Device>;
using Pinned = std::optional<bool>;
using Format = std::optional<c10::MemoryFormat>;

at::Tensor new_stored(const char* where, const at::Tensor& self, Dtype dtype, Storage storage, Device device) {
  const auto type = device.value_or(self.device()).type();
  TORCH_CHECK_NOT_IMPLEMENTED(
      (type == self.device().type() || type == c10::kMeta) && storage.value_or(c10::kStrided) == c10::kStrided, "[",
      where, "] a dense result on ", self.device(), ", where ", *spec_of(self), " is, is required, but got ",
      storage.value_or(c10::kStrided), " on ", device.value_or(self.device()), ". Convert the result.");
  return new_random(self, dtype.value_or(self.scalar_type()), device);
}

// Each operator exists with a generator (_by) and without (_of).

at::Tensor rand_by(const at::Tensor& self, Generator g, Dtype d, Storage s, Device v, Pinned /*p*/, Format /*f*/) {
  return new_stored("rand_like", self, d, s, v).uniform_(0, 1, g);
}
at::Tensor rand_of(const at::Tensor& self, Dtype d, Storage s, Device v, Pinned p, Format f) {
  return rand_by(self, std::nullopt, d, s, v, p, f);
}

at::Tensor randn_by(const at::Tensor& self, Generator g, Dtype d, Storage s, Device v, Pinned /*p*/, Format /*f*/) {
  return new_stored("randn_like", self, d, s, v).normal_(0, 1, g);
}
at::Tensor randn_of(const at::Tensor& self, Dtype d, Storage s, Device v, Pinned p, Format f) {
  return randn_by(self, std::nullopt, d, s, v, p, f);
}

using Int = c10::SymInt;

at::Tensor randint_low_by(
    const at::Tensor& self,
    Int low,
    Int high,
    Generator g,
    Dtype d,
    Storage s,
    Device v,
    Pinned,
    Format) {
  return new_stored("randint_like", self, d, s, v).random_(low.expect_int(), high.expect_int(), g);
}
at::Tensor randint_low_of(const at::Tensor& self, Int low, Int high, Dtype d, Storage s, Device v, Pinned p, Format f) {
  return randint_low_by(self, std::move(low), std::move(high), std::nullopt, d, s, v, p, f);
}
at::Tensor randint_by(const at::Tensor& self, Int high, Generator g, Dtype d, Storage s, Device v, Pinned p, Format f) {
  return randint_low_by(self, 0, std::move(high), std::move(g), d, s, v, p, f);
}
at::Tensor randint_of(const at::Tensor& self, Int high, Dtype d, Storage s, Device v, Pinned p, Format f) {
  return randint_low_by(self, 0, std::move(high), std::nullopt, d, s, v, p, f);
}

/// Standard normal numbers, with the shape and layout of `like`.
at::Tensor standard_normal(const at::Tensor& like, c10::ScalarType dtype, const Generator& generator) {
  return new_random(like, dtype).normal_(0, 1, generator);
}

at::Tensor normal_of_mean(const at::Tensor& mean, double deviation, Generator generator) {
  TORCH_CHECK_VALUE(
      deviation >= 0, "[normal] a standard deviation of at least 0 is required, but got ", deviation, ".");
  return standard_normal(mean, mean.scalar_type(), generator).mul_(deviation).add_(mean);
}

/// As torch does, on every device; every rank raises.
void check_deviations(const at::Tensor& deviation) {
  if (is_distributed_of_tracer(deviation)) {
    assert_when_run(deviation.ge(0).all(), "[normal] standard deviations of at least 0 are required, but got others.");
    return;
  }
  TORCH_CHECK_VALUE(
      deviation.is_meta() || deviation.ge(0).all().item<bool>(),
      "[normal] standard deviations of at least 0 are required, but got others in ",
      is_dtensor(deviation) ? spec_of(deviation)->to_string() : deviation.toString(), ".");
}

at::Tensor normal_of_deviation(double mean, const at::Tensor& deviation, Generator generator) {
  check_deviations(deviation);
  return standard_normal(deviation, deviation.scalar_type(), generator).mul_(deviation).add_(mean);
}

at::Tensor normal_of_both(const at::Tensor& mean, const at::Tensor& deviation, Generator generator) {
  check_deviations(deviation);
  const auto sizes = at::infer_size(mean.sizes(), deviation.sizes());
  const auto& like = is_dtensor(mean) && (mean.sizes() == sizes || !is_dtensor(deviation)) ? mean : deviation;
  auto numbers = standard_normal(like.sizes() == sizes ? like : like.expand(sizes), mean.scalar_type(), generator);
  return numbers.mul_(deviation).add_(mean);
}

} // namespace

void register_random_like(torch::Library& library) {
  library.impl("bernoulli", TORCH_FN(bernoulli_of_self));
  library.impl("bernoulli.p", TORCH_FN(bernoulli_of_number));
  library.impl("rand_like", TORCH_FN(rand_of));
  library.impl("rand_like.generator", TORCH_FN(rand_by));
  library.impl("randn_like", TORCH_FN(randn_of));
  library.impl("randn_like.generator", TORCH_FN(randn_by));
  library.impl("randint_like", TORCH_FN(randint_of));
  library.impl("randint_like.generator", TORCH_FN(randint_by));
  library.impl("randint_like.low_dtype", TORCH_FN(randint_low_of));
  library.impl("randint_like.low_generator_dtype", TORCH_FN(randint_low_by));
  library.impl("normal.Tensor_float", TORCH_FN(normal_of_mean));
  library.impl("normal.float_Tensor", TORCH_FN(normal_of_deviation));
  library.impl("normal.Tensor_Tensor", TORCH_FN(normal_of_both));
}

} // namespace weft
