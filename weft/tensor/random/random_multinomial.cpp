#include "weft/tensor/random/random_multinomial.h"

#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/random/random_like.h"
#include "weft/tensor/random/random_stream.h"
#include "weft/tensor/random/recorded_draws.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

using Generator = std::optional<at::Generator>;

/// Of more categories a float could not tell the numbers apart, as in torch.
constexpr int64_t kMaxCategories = int64_t{1} << 24;

void check_multinomial(const at::Tensor& self, int64_t count, bool replacement) {
  const auto& spec = *spec_of(self);
  TORCH_CHECK_VALUE(
      at::isFloatingType(self.scalar_type()) && (self.dim() == 1 || self.dim() == 2),
      "[multinomial] probabilities of floating dtype and 1 or 2 dims are required, but got ", spec, ".");
  TORCH_CHECK_VALUE(
      self.size(-1) < kMaxCategories, "[multinomial] fewer than 2^24 categories are required, but got ", spec, ".");
  TORCH_CHECK_VALUE(
      count > 0 && (replacement || count <= self.size(-1)), "[multinomial] between 1 and ", self.size(-1),
      " samples are required, more only with replacement, but got ", count, " for ", spec, ".");
}

/// As torch does: on the CPU by an error, which every rank raises. Other devices would have to be waited for.
void check_distributions(const at::Tensor& self) {
  if (!self.is_cpu() || self.numel() == 0) {
    return;
  }
  const auto are_valid = self.ge(0).logical_and(self.isfinite()).all().logical_and(self.sum(-1).gt(0).all());
  const auto message = c10::str(
      "[multinomial] finite probabilities of at least 0, with a sum above 0, are required, but got others in ",
      *spec_of(self), ".");
  if (is_distributed_of_tracer(self)) {
    assert_when_run(are_valid, message);
    return;
  }
  TORCH_CHECK_VALUE(are_valid.item<bool>(), message);
}

/// The tensor with every category on the ranks that hold the distribution.
at::Tensor with_all_categories(const at::Tensor& self) {
  const auto& layout = spec_of(self)->layout();
  const auto last = self.dim() - 1;
  return redistribute(
      self, replicated_where(layout, [&](int64_t m) { return layout[m].is_partial() || layout[m].is_shard(last); }));
}

/// Draws from the samples' distribution functions, each sample by its own number.
at::Tensor with_replacement(const at::Tensor& probabilities, int64_t count, const Generator& generator) {
  const auto sums = probabilities.cumsum(-1);
  const auto& spec = *spec_of(probabilities);
  auto sizes = spec.sizes().vec();
  sizes.back() = count;
  const auto numbers_spec = TensorSpec::make(spec.mesh(), spec.layout(), sizes, spec.dtype());
  const auto local_shape = numbers_spec->local_shape_and_offset().shape;
  auto numbers = make_dtensor(at::empty(local_shape, as_dtensor(probabilities)->local().options()), numbers_spec);
  numbers.uniform_(0, 1, generator);
  // A category without probability has the sum of the one before it, which is found first. The last sum is exactly 1.
  const auto function = sums.div(sums.narrow(-1, sums.size(-1) - 1, 1));
  return at::searchsorted(function, numbers, /*out_int32=*/false, /*right=*/true);
}

/// The categories of the largest p / q, where each q is drawn from an exponential distribution: the algorithm of torch.
at::Tensor by_largest(const at::Tensor& probabilities, int64_t count, const Generator& generator) {
  const auto weights = new_random(probabilities, probabilities.scalar_type()).exponential_(1, generator);
  const auto keys = probabilities.div(weights);
  return count == 1 ? keys.argmax(-1, /*keepdim=*/true) : std::get<1>(keys.topk(count, -1));
}

/// Torch's own numbers, while a module is initialised.
at::Tensor from_stream(const at::Tensor& self, int64_t count, bool replacement, const at::Generator& generator) {
  const auto& mesh = mesh_of(self);
  const auto gathered = redistribute(self, replicated(mesh));
  const auto samples = at::multinomial(as_dtensor(gathered)->local().cpu(), count, replacement, generator);
  const auto spec = TensorSpec::make(mesh, replicated(mesh), samples.sizes(), samples.scalar_type());
  return make_dtensor(samples.to(self.device()), spec);
}

at::Tensor multinomial(const at::Tensor& self, c10::SymInt count, bool replacement, Generator generator) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto samples = count.expect_int();
  checked_values("multinomial", self);
  check_multinomial(self, samples, replacement);
  check_distributions(self);
  if (const auto stream = stream_generator(generator)) {
    return from_stream(self, samples, replacement, *stream);
  }
  const auto probabilities = with_all_categories(self.to(self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
  return replacement && samples > 1 ? with_replacement(probabilities, samples, generator)
                                    : by_largest(probabilities, samples, generator);
}

at::Tensor& multinomial_out(
    const at::Tensor& self,
    c10::SymInt count,
    bool replacement,
    Generator generator,
    at::Tensor& out) {
  const auto samples = multinomial(self, std::move(count), replacement, std::move(generator));
  TORCH_CHECK_VALUE(
      is_dtensor(out) && out.sizes() == samples.sizes() && out.scalar_type() == samples.scalar_type(),
      "[multinomial] an out of ", *spec_of(samples), " is required, but got ",
      is_dtensor(out) ? spec_of(out)->to_string() : "a plain tensor", ".");
  return out.copy_(samples);
}

} // namespace

void register_random_multinomial(torch::Library& library) {
  library.impl("multinomial", TORCH_FN(multinomial));
  library.impl("multinomial.out", TORCH_FN(multinomial_out));
}

} // namespace weft
