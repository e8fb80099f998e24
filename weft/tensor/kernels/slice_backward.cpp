#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/dispatch/kernel_table.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/scopes.h"
#include "weft/tensor/kernels/kernels.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/zeros.h>

namespace weft {

namespace {

constexpr const char* kName = "aten::slice_backward";

/// The one mesh dim of several ranks that shards a tensor dim, into shards of consecutive indices; -1 if there is none, or
/// if there are others.
int64_t only_mesh_dim_along(int64_t tensor_dim, const TensorSpec& spec) {
  int64_t found = -1;
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    const auto& placement = spec.layout()[m];
    if (!placement.is_shard(tensor_dim)) {
      continue;
    }
    if (found >= 0 || !placement.is_plain_shard() || spec.mesh().size(m) == 1) {
      return -1;
    }
    found = m;
  }
  return found;
}

/// The shards of the gradient by their positions in the tensor that was sliced: every rank gets what the slice took of its
/// own shard.
class ShiftedShards {
 public:
  ShiftedShards(const TensorSpec& gradient, c10::IntArrayRef sizes, int64_t dim, int64_t mesh_dim, int64_t start)
      : gradient_(gradient), sizes_(sizes), dim_(dim), mesh_dim_(mesh_dim), start_(start) {}

  /// Puts the gradient's elements into `result`, this rank's shard of the sliced tensor.
  void exchange(const at::Tensor& local, const at::Tensor& result) const {
    const auto size = gradient_.mesh().size(mesh_dim_);
    const auto rank = gradient_.mesh().rank(mesh_dim_);
    std::vector<at::Tensor> sends(size);
    std::vector<at::Tensor> recvs(size);
    for (int64_t i = 0; i < size; ++i) {
      const auto sent = intersect(of_gradient(rank), of_result(i));
      const auto received = intersect(of_gradient(i), of_result(rank));
      if (!sent.empty()) {
        sends[i] = local.narrow(dim_, sent[0].held_begin, sent[0].length);
      }
      if (!received.empty()) {
        recvs[i] = result.narrow(dim_, received[0].wanted_begin, received[0].length);
      }
    }
    exchange_slices(kName, local, gradient_.mesh(), {mesh_dim_}, sends, recvs);
  }

 private:
  Runs of_result(int64_t member) const {
    return runs(sizes_[dim_], member);
  }
  Runs of_gradient(int64_t member) const {
    auto result = runs(gradient_.sizes()[dim_], member);
    result[0].begin += start_;
    return result;
  }
  Runs runs(int64_t size, int64_t member) const {
    const auto own = gradient_.mesh().coordinate();
    c10::SmallVector<int64_t, kMaxMeshDims> coordinate(own.begin(), own.end());
    coordinate[mesh_dim_] = member;
    return local_runs(size, dim_, gradient_.layout(), gradient_.mesh().shape(), coordinate);
  }

  const TensorSpec& gradient_;
  c10::IntArrayRef sizes_;
  int64_t dim_;
  int64_t mesh_dim_;
  int64_t start_;
};

void tell(const TensorSpec& gradient, int64_t mesh_dim) {
  if (Scopes::of_thread().any()) {
    auto explanation = std::make_shared<Explanation>();
    explanation->op = kName;
    explanation->inputs = {gradient.to_string()};
    explanation->strategy = gradient.layout().to_string() + " -> " + gradient.layout().to_string();
    explanation->plans = {"all_to_all over " + gradient.mesh().dims_text({mesh_dim})};
    explanation->why = "every rank gets what the slice took of its shard";
    tell_scopes(explanation, /*communicates=*/true);
  }
}

at::Tensor put_back(const at::Tensor& gradient, c10::IntArrayRef sizes, int64_t dim, int64_t mesh_dim, int64_t start) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto& impl = checked_values(kName, gradient);
  const auto& spec = *impl.spec();
  tell(spec, mesh_dim);
  const auto target = TensorSpec::make(spec.mesh(), spec.layout(), sizes, spec.dtype());
  auto result = at::zeros(target->local_shape_and_offset().shape, impl.local().options());
  ShiftedShards(spec, sizes, dim, mesh_dim, start).exchange(impl.local(), result);
  return make_dtensor(std::move(result), target);
}

/// A shard with unequal blocks that this program uses, one of which is what the slice took; empty if there is none. The tensor
/// that was sliced had such a shard, most likely, and its other slices give gradients that are sharded alike.
std::optional<Placement> blocks_around(int64_t size, Run taken, const DeviceMesh& mesh, int64_t mesh_dim) {
  for (const auto& used : mesh.world()->unequal_blocks()) {
    const auto all = blocks(size, used);
    if (divides_blocks(size, mesh.size(mesh_dim), used) && std::find(all.begin(), all.end(), taken) != all.end()) {
      return used;
    }
  }
  return std::nullopt;
}

/// The gradient with zeros around it as shards of blocks: every rank has its shard of the block that the gradient is.
at::Tensor put_into_block(
    const at::Tensor& gradient,
    c10::IntArrayRef sizes,
    int64_t dim,
    int64_t mesh_dim,
    int64_t start,
    const Placement& with_blocks) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto& impl = checked_values(kName, gradient);
  const auto& spec = *impl.spec();
  const auto layout = spec.layout().with(mesh_dim, with_blocks.along(dim));
  const auto target = TensorSpec::make(spec.mesh(), layout, sizes, spec.dtype());
  auto result = at::zeros(target->local_shape_and_offset().shape, impl.local().options());
  result.narrow(dim, start / spec.mesh().size(mesh_dim), impl.local().size(dim)).copy_(impl.local());
  return make_dtensor(std::move(result), target);
}

class SliceBackward final : public c10::OperatorKernel {
 public:
  explicit SliceBackward(const c10::OperatorHandle& op) : by_rule_(make_kernel(op)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
    const auto& gradient = arguments[0].toTensor();
    const auto* impl = as_dtensor(gradient);
    const auto dim = impl == nullptr ? 0 : at::maybe_wrap_dim(arguments[2].toInt(), gradient.dim());
    // A program records redistributions and operators alone, therefore it goes by the rule.
    const bool is_recorded = gradient.is_meta() || MoveObserver::of_thread() != nullptr;
    const auto mesh_dim =
        impl == nullptr || is_recorded || arguments[5].toInt() != 1 ? -1 : only_mesh_dim_along(dim, *impl->spec());
    if (mesh_dim < 0) {
      by_rule_.call(keys, stack);
      return;
    }
    const auto sizes = arguments[1].toIntVector();
    const auto start = arguments[3].toInt();
    const auto first = std::clamp<int64_t>(start < 0 ? start + sizes[dim] : start, 0, sizes[dim]);
    const auto around = blocks_around(sizes[dim], {first, gradient.size(dim)}, impl->spec()->mesh(), mesh_dim);
    auto result = around ? put_into_block(gradient, sizes, dim, mesh_dim, first, *around)
                         : put_back(gradient, sizes, dim, mesh_dim, first);
    torch::jit::drop(*stack, op.schema().arguments().size());
    stack->emplace_back(std::move(result));
  }

 private:
  const DTensorKernel& by_rule_;
};

} // namespace

void register_slice_backward(torch::Library& library) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kName, "");
  library.impl("slice_backward", torch::CppFunction::makeFromBoxedFunctor(std::make_unique<SliceBackward>(op)));
}

} // namespace weft
