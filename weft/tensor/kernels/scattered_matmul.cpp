#include "weft/tensor/kernels/scattered_matmul.h"

#include "weft/comm/comm_log.h"
#include "weft/comm/communicator.h"
#include "weft/comm/world/fake_world.h"
#include "weft/overlap/fused_matmul.h"
#include "weft/overlap/measure/compute_rate.h"
#include "weft/overlap/measure/mesh_rates.h"
#include "weft/overlap/overlap_cost.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>

namespace weft {

namespace {

constexpr const char* kScatterName = "matmul_reduce_scatter";

/// The mesh dim along which the product is partial and `like` is cut; none where anything else differs between them.
std::optional<int64_t> scattering_mesh_dim(
    const TensorSpec& gradient,
    const TensorSpec& matrix,
    const TensorSpec& like) {
  const auto& mesh = gradient.mesh();
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
  // Pieces are as torch.chunk cuts where one mesh dim alone cuts.
  const bool is_plain = found && gradient.shard_order(last).size() == 1 && matrix.shard_order(0).size() == 1 &&
      like.shard_order(like.layout()[*found].dim()).size() == 1;
  return is_plain ? found : std::nullopt;
}

OverlapCase overlap_case(const TensorSpec& gradient, const TensorSpec& matrix, int64_t mesh_dim) {
  const auto& shape = gradient.mesh().shape();
  // The first rank holds most.
  const auto part =
      local_shape_and_offset(gradient.sizes(), gradient.layout(), shape, std::vector<int64_t>(shape.size(), 0)).shape;
  return {
      .kind = OverlapKind::MatmulScatter,
      .cut = OverlapCut::Rows,
      .members = gradient.mesh().size(mesh_dim),
      .rows = c10::multiply_integers(part.begin(), part.end() - 1),
      .inner = part.back(),
      .columns = matrix.sizes()[1],
      .element_bytes = static_cast<int64_t>(c10::elementSize(gradient.dtype()))};
}

/// The number of chunks; none where it is not worth its while.
std::optional<int64_t> chosen_chunks(const TensorSpec& gradient, const OverlapCase& overlap, int64_t mesh_dim) {
  const auto& mesh = gradient.mesh();
  if (Scopes::of_thread().overlap == OverlapMode::Force) {
    const auto assumed = assumed_compute(mesh.device_type(), gradient.dtype());
    return choose_overlap(overlap, LinkModel::for_mesh(mesh).links[mesh_dim], assumed).chunks;
  }
  if (too_small_to_overlap(overlap) || is_fake(*mesh.world())) {
    return std::nullopt;
  }
  const auto rates = rates_of(mesh, gradient.dtype());
  const auto choice = choose_overlap(overlap, rates.link({mesh_dim}), rates.compute);
  const auto alone =
      choose_overlap(overlap, {0, std::numeric_limits<double>::infinity()}, rates.compute).unfused_seconds;
  const auto added = choice.fused_seconds - alone;
  return choice.fuse && 4 * added <= choice.unfused_seconds - alone ? std::optional(choice.chunks) : std::nullopt;
}

void tell(const TensorSpec& gradient, const TensorSpec& matrix, const SpecPtr& result, int64_t dim, int64_t chunks) {
  if (!Scopes::of_thread().any()) {
    return;
  }
  auto explanation = std::make_shared<Explanation>();
  explanation->op = kScatterName;
  explanation->inputs = {gradient.to_string(), matrix.to_string()};
  explanation->strategy =
      gradient.layout().to_string() + " " + matrix.layout().to_string() + " -> " + result->layout().to_string();
  explanation->why =
      c10::str("what is done is reduced and cut along dim ", dim, " beside the matmul, chunks per rank: ", chunks);
  tell_scopes(explanation, /*communicates=*/true);
}

} // namespace

at::Tensor scattered_matmul(const at::Tensor& gradient, const at::Tensor& matrix, const at::Tensor& like) {
  const auto* left = as_dtensor(gradient);
  const auto* right = as_dtensor(matrix);
  const auto* target = as_dtensor(like);
  // What is to be differentiated once more, and what is recorded, is done by operators that can be. They raise for what is
  // stale.
  if (left == nullptr || right == nullptr || target == nullptr || left->is_stale() || right->is_stale() ||
      c10::GradMode::is_enabled() || MoveObserver::of_thread() != nullptr ||
      Scopes::of_thread().overlap == OverlapMode::Off || Scopes::of_thread().strict) {
    return {};
  }
  const auto& spec = *left->spec();
  const auto& matrix_spec = *right->spec();
  if (!(spec.mesh() == matrix_spec.mesh() && spec.mesh() == target->spec()->mesh()) || spec.dim() < 2 ||
      matrix_spec.dim() != 2 || spec.dim() != target->spec()->dim() || spec.dtype() != matrix_spec.dtype() ||
      !c10::isFloatingType(spec.dtype()) || spec.numel() == 0 || matrix_spec.numel() == 0) {
    return {};
  }
  const auto mesh_dim = scattering_mesh_dim(spec, matrix_spec, *target->spec());
  if (!mesh_dim) {
    return {};
  }
  const auto chunks = chosen_chunks(spec, overlap_case(spec, matrix_spec, *mesh_dim), *mesh_dim);
  if (!chunks) {
    return {};
  }
  const auto dim = target->spec()->layout()[*mesh_dim].dim();
  auto sizes = spec.sizes().vec();
  sizes.back() = matrix_spec.sizes()[1];
  const auto result = TensorSpec::make(spec.mesh(), target->spec()->layout(), sizes, spec.dtype());
  tell(spec, matrix_spec, result, dim, *chunks);
  const OperatorScope scope(kScatterName);
  const auto group = Communicator::of(spec.mesh()).group(spec.mesh(), {*mesh_dim});
  const MatmulScatterOptions options{.dim = dim, .op = ReduceOp::Sum, .chunks = *chunks};
  return make_dtensor(matmul_reduce_scatter(*group, {left->local()}, {right->local()}, {}, options), result);
}

} // namespace weft
