#include "weft/tensor/kernels/scattered_matmul.h"

#include "weft/comm/comm_log.h"
#include "weft/comm/communicator.h"
#include "weft/overlap/fused_matmul.h"
#include "weft/redistribute/local_recorder.h"
#include "weft/tensor/dispatch/overlapped_call.h"
#include "weft/tensor/impl/call_agreement.h"
#include "weft/tensor/impl/call_cache.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/move_observer.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>

namespace weft {

namespace {

constexpr const char* kScatterName = "matmul_reduce_scatter";

/// The mesh dim along which the product is partial and `like` is sharded; none if the layouts of the product and of
/// `like` differ on another mesh dim too.
std::optional<int64_t> scattering_mesh_dim(
    const TensorSpec& gradient,
    const TensorSpec& matrix,
    const TensorSpec& like) {
  const auto& mesh = gradient.mesh();
  if (!(mesh == matrix.mesh() && mesh == like.mesh()) || gradient.dim() < 2 || matrix.dim() != 2 ||
      gradient.dim() != like.dim() || gradient.dtype() != matrix.dtype() || !c10::isFloatingType(gradient.dtype()) ||
      gradient.numel() == 0 || matrix.numel() == 0) {
    return std::nullopt;
  }
  const auto last = gradient.dim() - 1;
  std::optional<int64_t> found;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    const auto& placed = gradient.layout()[m];
    const auto& wanted = like.layout()[m];
    const bool is_summed = placed == Shard(last) && matrix.layout()[m] == Shard(0);
    if (is_summed && !found && wanted.is_shard() && wanted.dim() != last) {
      found = m;
    } else if (
        !(placed == wanted && matrix.layout()[m].is_replicate() && (placed.is_replicate() || placed.is_shard())) ||
        placed == Shard(last)) {
      return std::nullopt;
    }
  }
  // Shards are those of torch.chunk, as matmul_reduce_scatter needs them, only if a single mesh dim shards the tensor
  // dim.
  const bool is_plain = found && gradient.shard_order(last).size() == 1 && matrix.shard_order(0).size() == 1 &&
      like.shard_order(like.layout()[*found].dim()).size() == 1;
  return is_plain ? found : std::nullopt;
}

OverlapCase overlap_case(const TensorSpec& gradient, const TensorSpec& matrix, int64_t mesh_dim) {
  const auto local = largest_local_shape(gradient.sizes(), gradient.layout(), gradient.mesh().shape());
  return {
      .kind = OverlapKind::MatmulScatter,
      .dim = OverlapDim::Rows,
      .members = gradient.mesh().size(mesh_dim),
      .rows = c10::multiply_integers(local.begin(), local.end() - 1),
      .inner = local.back(),
      .columns = matrix.sizes()[1],
      .element_bytes = static_cast<int64_t>(c10::elementSize(gradient.dtype()))};
}

/// Decides against fusing if the matmul would hide less than three quarters of the reduce-scatter.
OverlapChoice choose_scatter(const OverlapCase& overlap, const Link& link, const Compute& compute) {
  auto choice = choose_overlap(overlap, link, compute);
  const auto alone = choose_overlap(overlap, {0, std::numeric_limits<double>::infinity()}, compute).unfused_seconds;
  const auto added = choice.fused_seconds - alone;
  choice.fuse = choice.fuse && 4 * added <= choice.unfused_seconds - alone;
  return choice;
}

/// `overlapped` of the result is nullptr if the layouts do not allow a reduce-scatter of the product.
PreparedCall prepare_scatter(const SpecPtr& gradient, const SpecPtr& matrix, const SpecPtr& like) {
  PreparedCall call;
  call.operands = {gradient, matrix, like};
  const auto mesh_dim = scattering_mesh_dim(*gradient, *matrix, *like);
  if (!mesh_dim) {
    return call;
  }
  const auto& mesh = gradient->mesh();
  const auto dim = like->layout()[*mesh_dim].dim();
  auto sizes = gradient->sizes().vec();
  sizes.back() = matrix->sizes()[1];
  const auto result = TensorSpec::make(mesh, like->layout(), sizes, gradient->dtype());
  auto explanation = std::make_shared<Explanation>();
  explanation->op = kScatterName;
  explanation->inputs = {gradient->to_string(), matrix->to_string()};
  explanation->strategy =
      gradient->layout().to_string() + " " + matrix->layout().to_string() + " -> " + result->layout().to_string();
  explanation->why = c10::str("the product is reduce-scattered along dim ", dim, ", overlapped with the matmul");
  call.outputs.emplace_back().spec = result;
  call.communicates = true;
  call.explanation = std::move(explanation);
  call.overlapped = std::make_shared<OverlappedCall>(OverlappedCall{
      .group = nullptr, // made by the first call that runs overlapped
      .dim = dim,
      .size = sizes[dim],
      .overlap = CallOverlap(gradient, *mesh_dim, overlap_case(*gradient, *matrix, *mesh_dim), choose_scatter)});
  return call;
}

/// This thread decides once for these three specs and keeps the result in the cache of prepared calls, as for
/// operators.
const PreparedCall& prepared_scatter(const SpecPtr& gradient, const SpecPtr& matrix, const SpecPtr& like) {
  CallKey key;
  key.add(reinterpret_cast<uintptr_t>(kScatterName));
  for (const auto* spec : {&gradient, &matrix, &like}) {
    key.add(reinterpret_cast<uintptr_t>(spec->get()));
  }
  auto& cache = CallCache::of_thread();
  const auto* found = cache.find(key);
  return found != nullptr ? *found : cache.add(key, prepare_scatter(gradient, matrix, like));
}

void tell(const PreparedCall& call) {
  auto explanation = std::make_shared<Explanation>(*call.explanation);
  explanation->why += c10::str(", chunks per rank: ", call.overlapped->overlap.chunks());
  tell_scopes(explanation, call.communicates);
}

} // namespace

at::Tensor scattered_matmul(const at::Tensor& gradient, const at::Tensor& matrix, const at::Tensor& like) {
  const auto* left = as_dtensor(gradient);
  const auto* right = as_dtensor(matrix);
  const auto* target = as_dtensor(like);
  // Falls back to operators if the product is to be differentiated again or recorded, which this function does not
  // support, and for stale tensors, for which operators raise. A compiler has a pass of its own for this.
  if (left == nullptr || right == nullptr || target == nullptr || left->is_stale() || right->is_stale() ||
      is_traced(gradient) || c10::GradMode::is_enabled() || MoveObserver::of_thread() != nullptr ||
      LocalRecorder::of_thread() != nullptr || Scopes::of_thread().overlap == OverlapMode::Off ||
      Scopes::of_thread().strict) {
    return {};
  }
  const auto& call = prepared_scatter(left->spec(), right->spec(), target->spec());
  if (call.overlapped == nullptr) {
    return {};
  }
  if (C10_UNLIKELY(debug_enabled())) {
    check_agreement(call);
  }
  if (!runs_overlapped(call)) {
    return {};
  }
  if (C10_UNLIKELY(Scopes::of_thread().any())) {
    tell(call);
  }
  auto& overlapped = *call.overlapped;
  const OperatorScope scope(kScatterName);
  if (C10_UNLIKELY(overlapped.group == nullptr)) {
    const auto& mesh = left->spec()->mesh();
    overlapped.group = Communicator::of(mesh).group(mesh, {overlapped.overlap.mesh_dim()});
  }
  const MatmulScatterOptions options{.dim = overlapped.dim, .op = ReduceOp::Sum, .chunks = overlapped.overlap.chunks()};
  return make_dtensor(
      matmul_reduce_scatter(*overlapped.group, {left->local()}, {right->local()}, {}, options), call.outputs[0].spec);
}

} // namespace weft
