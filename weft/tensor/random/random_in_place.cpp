#include "weft/tensor/random/random_in_place.h"

#include "weft/core/dtype_text.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/expanded.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/random/random_fill.h"
#include "weft/tensor/random/random_stream.h"
#include "weft/tensor/random/recorded_draws.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

using Generator = std::optional<at::Generator>;

/// The distributed tensor that the caller is about to fill; raises if it cannot be filled.
const DTensorImpl& distributed(const char* where, const at::Tensor& tensor) {
  const auto* impl = as_dtensor(tensor);
  TORCH_CHECK_TYPE(
      impl != nullptr, "[", where, "] numbers for a plain tensor of shape ", tensor.sizes(),
      " cannot depend on a distributed one. Distribute it with distribute_tensor or from_local.");
  TORCH_CHECK_VALUE(
      !impl->is_copy_of_base(), "[", where, "] ", *impl->spec(),
      " is a view that had to be redistributed, so that writing to it would not change the tensor it was taken of. "
      "Redistribute that tensor first, or clone the view.");
  check_not_expanded(where, *impl->spec());
  impl->count_write();
  return *impl;
}

/// The local tensor of `tensor`, broadcast to the shape of `spec` and redistributed to its layout.
at::Tensor local_as(const char* where, const at::Tensor& tensor, const TensorSpec& spec) {
  if (tensor.dim() == 0 && !is_dtensor(tensor)) {
    return tensor;
  }
  TORCH_CHECK_TYPE(
      is_dtensor(tensor), "[", where, "] distributed and plain tensors cannot be mixed, but got a plain one of shape ",
      tensor.sizes(), ". Distribute it with distribute_tensor or from_local.");
  const auto expanded = tensor.sizes() == spec.sizes() ? tensor : tensor.expand(spec.sizes());
  TORCH_CHECK_VALUE(
      spec_of(expanded)->mesh() == spec.mesh(), "[", where, "] all tensors must be on the same mesh, but got ",
      spec.mesh(), " and ", spec_of(expanded)->mesh(), ".");
  return to_local(redistribute(expanded, spec.layout()));
}

/// In an InitializationScope, fills the tensor with the numbers that `op` draws from torch's generator on the CPU and
/// returns true; otherwise does nothing and returns false.
template <class Op>
bool fills_as_torch(const char* where, const at::Tensor& self, const Generator& generator, Drawn how, const Op& op) {
  const auto source = stream_generator(generator);
  if (source) {
    fill_from_stream(distributed(where, self), how, [&](at::Tensor numbers) { op(numbers, source); });
  }
  return source.has_value();
}

void fill(const char* where, const at::Tensor& self, const Distribution& distribution, const Generator& generator) {
  const auto& impl = distributed(where, self);
  fill_random(impl.local(), *impl.spec(), distribution, generator);
}

at::Tensor& uniform_(at::Tensor& self, double from, double to, Generator generator) {
  if (fills_as_torch("uniform_", self, generator, Drawn::InChunks, [&](auto& numbers, auto& source) {
        numbers.uniform_(from, to, source);
      })) {
    return self;
  }
  TORCH_CHECK_VALUE(
      from <= to && std::isfinite(to - from), "[uniform_] a finite interval is required, but got from ", from, " to ",
      to, ".");
  fill("uniform_", self, Distribution::uniform(from, to), generator);
  return self;
}

at::Tensor& normal_(at::Tensor& self, double mean, double deviation, Generator generator) {
  if (fills_as_torch("normal_", self, generator, Drawn::InChunks, [&](auto& numbers, auto& source) {
        numbers.normal_(mean, deviation, source);
      })) {
    return self;
  }
  TORCH_CHECK_VALUE(
      deviation >= 0, "[normal_] a standard deviation of at least 0 is required, but got ", deviation, ".");
  fill("normal_", self, Distribution::normal(mean, deviation), generator);
  return self;
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double deviation, Generator generator) {
  if (fills_as_torch("log_normal_", self, generator, Drawn::InChunks, [&](auto& numbers, auto& source) {
        numbers.log_normal_(mean, deviation, source);
      })) {
    return self;
  }
  TORCH_CHECK_VALUE(deviation > 0, "[log_normal_] a standard deviation above 0 is required, but got ", deviation, ".");
  fill("log_normal_", self, Distribution::log_normal(mean, deviation), generator);
  return self;
}

at::Tensor& exponential_(at::Tensor& self, double rate, Generator generator) {
  if (fills_as_torch("exponential_", self, generator, Drawn::AtOnce, [&](auto& numbers, auto& source) {
        numbers.exponential_(rate, source);
      })) {
    return self;
  }
  TORCH_CHECK_VALUE(rate > 0, "[exponential_] a lambda above 0 is required, but got ", rate, ".");
  fill("exponential_", self, Distribution::exponential(rate), generator);
  return self;
}

at::Tensor& cauchy_(at::Tensor& self, double median, double scale, Generator generator) {
  if (fills_as_torch("cauchy_", self, generator, Drawn::InChunks, [&](auto& numbers, auto& source) {
        numbers.cauchy_(median, scale, source);
      })) {
    return self;
  }
  TORCH_CHECK_VALUE(scale > 0, "[cauchy_] a sigma above 0 is required, but got ", scale, ".");
  fill("cauchy_", self, Distribution::cauchy(median, scale), generator);
  return self;
}

at::Tensor& geometric_(at::Tensor& self, double p, Generator generator) {
  if (fills_as_torch("geometric_", self, generator, Drawn::InChunks, [&](auto& numbers, auto& source) {
        numbers.geometric_(p, source);
      })) {
    return self;
  }
  TORCH_CHECK_VALUE(p > 0 && p < 1, "[geometric_] a probability in (0, 1) is required, but got ", p, ".");
  fill("geometric_", self, Distribution::geometric(p), generator);
  return self;
}

at::Tensor& bernoulli_(at::Tensor& self, double p, Generator generator) {
  if (fills_as_torch("bernoulli_", self, generator, Drawn::AtOnce, [&](auto& numbers, auto& source) {
        numbers.bernoulli_(p, source);
      })) {
    return self;
  }
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, "[bernoulli_] a probability in [0, 1] is required, but got ", p, ".");
  fill("bernoulli_", self, Distribution::bernoulli(p), generator);
  return self;
}

/// As torch does: on the CPU by an error, which every rank raises, on other devices by an assertion of the device.
void check_probabilities(const at::Tensor& p) {
  const auto are_valid = p.ge(0).logical_and_(p.le(1)).all();
  if (is_distributed_of_tracer(p)) {
    assert_when_run(are_valid, "[bernoulli_] probabilities in [0, 1] are required, but got others.");
  } else if (p.is_cpu()) {
    TORCH_CHECK_VALUE(
        are_valid.item<bool>(), "[bernoulli_] probabilities in [0, 1] are required, but got others in ",
        is_dtensor(p) ? spec_of(p)->to_string() : p.toString(), ".");
  } else if (!p.is_meta()) {
    at::_assert_async(is_dtensor(are_valid) ? as_dtensor(are_valid)->local() : are_valid);
  }
}

at::Tensor& bernoulli_of_tensor_(at::Tensor& self, const at::Tensor& p, Generator generator) {
  check_probabilities(p);
  const auto& impl = distributed("bernoulli_", self);
  const auto probabilities = local_as("bernoulli_", p, *impl.spec());
  fill_bernoulli(impl.local(), probabilities, *impl.spec(), generator);
  return self;
}

/// The largest n such that the dtype can hold all integers from 0 to n.
int64_t last_integer(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return int64_t{1} << 53;
    case at::kFloat:
      return int64_t{1} << 24;
    case at::kHalf:
      return int64_t{1} << 11;
    case at::kBFloat16:
      return int64_t{1} << 8;
    case at::kBool:
      return 1;
    case at::kByte:
      return std::numeric_limits<uint8_t>::max();
    case at::kChar:
      return std::numeric_limits<int8_t>::max();
    case at::kShort:
      return std::numeric_limits<int16_t>::max();
    case at::kInt:
      return std::numeric_limits<int32_t>::max();
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

/// Fills with integers from `first` to `last`, both included.
void fill_integers(const at::Tensor& self, int64_t first, int64_t last, const Generator& generator) {
  const bool is_integral = c10::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  const bool is_unsigned = self.scalar_type() == at::kByte || self.scalar_type() == at::kBool;
  const auto largest = last_integer(self.scalar_type());
  TORCH_CHECK_VALUE(
      !is_integral || ((is_unsigned ? first >= 0 : first >= -largest - 1) && last <= largest),
      "[random_] bounds within ", dtype_text(self.scalar_type()), " are required, but got from ", first, " up to ",
      last, ". Use a wider dtype.");
  const auto count = static_cast<uint64_t>(last) - static_cast<uint64_t>(first) + 1;
  fill("random_", self, Distribution::integers(first, count), generator);
}

at::Tensor& random_(at::Tensor& self, Generator generator) {
  if (fills_as_torch(
          "random_", self, generator, Drawn::InChunks, [&](auto& numbers, auto& source) { numbers.random_(source); })) {
    return self;
  }
  fill_integers(self, 0, last_integer(self.scalar_type()), generator);
  return self;
}

at::Tensor& random_from(at::Tensor& self, int64_t from, std::optional<int64_t> to, Generator generator) {
  if (fills_as_torch("random_", self, generator, Drawn::InChunks, [&](auto& numbers, auto& source) {
        numbers.random_(from, to, source);
      })) {
    return self;
  }
  TORCH_CHECK_VALUE(
      !to || from < *to, "[random_] a from below to is required, but got from ", from, " to ", to.value_or(0), ".");
  fill_integers(self, from, to ? *to - 1 : last_integer(self.scalar_type()), generator);
  return self;
}

at::Tensor& random_to(at::Tensor& self, int64_t to, Generator generator) {
  return random_from(self, 0, to, generator);
}

} // namespace

void register_random_in_place(torch::Library& library) {
  library.impl("uniform_", TORCH_FN(uniform_));
  library.impl("normal_", TORCH_FN(normal_));
  library.impl("log_normal_", TORCH_FN(log_normal_));
  library.impl("exponential_", TORCH_FN(exponential_));
  library.impl("cauchy_", TORCH_FN(cauchy_));
  library.impl("geometric_", TORCH_FN(geometric_));
  library.impl("bernoulli_.float", TORCH_FN(bernoulli_));
  library.impl("bernoulli_.Tensor", TORCH_FN(bernoulli_of_tensor_));
  library.impl("random_", TORCH_FN(random_));
  library.impl("random_.from", TORCH_FN(random_from));
  library.impl("random_.to", TORCH_FN(random_to));
}

} // namespace weft
