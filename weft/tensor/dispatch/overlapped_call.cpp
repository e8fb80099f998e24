#include "weft/tensor/dispatch/overlapped_call.h"

#include "weft/comm/comm_log.h"
#include "weft/overlap/fused_matmul.h"
#include "weft/redistribute/local_recorder.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

/// The positions of a matmul's tensors among its operands.
struct Places {
  size_t left;
  size_t right;
  std::optional<size_t> bias;
  bool transposes_right;
};

std::optional<Places> places_of(const c10::OperatorName& full_name, size_t operands) {
  const auto& op = full_name.name;
  if (!full_name.overload_name.empty()) {
    return std::nullopt; // with out= or another dtype
  }
  if (op == "aten::linear") {
    return Places{0, 1, operands > 2 ? std::optional<size_t>(2) : std::nullopt, true};
  }
  if (op == "aten::mm" || op == "aten::matmul") {
    return Places{0, 1, std::nullopt, false};
  }
  if (op == "aten::addmm") {
    return Places{1, 2, 0, false};
  }
  return std::nullopt;
}

/// The mesh dim of a plan that is one all-gather over one mesh dim, of shards as torch.chunk divides; nullopt for other
/// plans.
std::optional<int64_t> gathering_mesh_dim(const Plan& plan) {
  if (plan.steps.size() != 1 || plan.steps[0].kind != StepKind::AllGather || plan.steps[0].mesh_dims.size() != 1) {
    return std::nullopt;
  }
  const auto& step = plan.steps[0];
  const auto mesh_dim = step.mesh_dims[0];
  const auto& placement = step.before[mesh_dim];
  const bool is_plain = placement.is_plain_shard() && step.after[mesh_dim].is_replicate() &&
      effective_shard_order(step.before, placement.dim(), plan.source->mesh().shape()) == MeshDims{mesh_dim};
  return is_plain ? std::optional(mesh_dim) : std::nullopt;
}

bool have_one_float_dtype(const PreparedCall& call) {
  const auto dtype = call.operands[0]->dtype();
  return c10::isFloatingType(dtype) &&
      std::all_of(call.operands.begin(), call.operands.end(), [&](const auto& spec) { return spec->dtype() == dtype; });
}

PreparedCall::Moves without(const PreparedCall::Moves& moves, size_t operand) {
  auto others = moves;
  others[operand] = nullptr;
  const bool is_only = std::all_of(others.begin(), others.end(), [](const auto& plan) { return plan == nullptr; });
  return is_only ? PreparedCall::Moves() : others;
}

} // namespace

std::shared_ptr<OverlappedCall> find_overlap(
    const c10::OperatorName& op,
    const PreparedCall& call,
    c10::ArrayRef<Layout> targets) {
  const auto places = call.moves.empty() ? std::nullopt : places_of(op, call.operands.size());
  if (!places || call.moves[places->left] == nullptr || !have_one_float_dtype(call)) {
    return nullptr;
  }
  const auto& left = *call.operands[places->left];
  const auto& right = *call.operands[places->right];
  const auto mesh_dim = gathering_mesh_dim(call.moves[places->left]->plan());
  if (!mesh_dim || left.dim() < 2 || right.dim() != 2 || left.numel() == 0 || right.numel() == 0) {
    return nullptr;
  }
  const auto dim = left.layout()[*mesh_dim].dim();
  if (dim == left.dim() - 1) {
    return nullptr;
  }
  const auto columns_dim = places->transposes_right ? 0 : 1;
  const auto rows = largest_local_shape(left.sizes(), targets[places->left], left.mesh().shape());
  const OverlapCase overlap{
      .kind = OverlapKind::GatherMatmul,
      .dim = OverlapDim::Rows,
      .members = left.mesh().size(*mesh_dim),
      .rows = c10::multiply_integers(rows.begin(), rows.end() - 1),
      .inner = rows.back(),
      .columns = largest_local_shape(right.sizes(), targets[places->right], right.mesh().shape())[columns_dim],
      .element_bytes = static_cast<int64_t>(c10::elementSize(left.dtype()))};
  bool adds_bias_after = false;
  if (places->bias) {
    const auto sizes = call.operands[*places->bias]->sizes();
    adds_bias_after = sizes.size() != 1 || sizes[0] != right.sizes()[columns_dim];
  }
  return std::make_shared<OverlappedCall>(OverlappedCall{
      .left = places->left,
      .right = places->right,
      .bias = places->bias,
      .transposes_right = places->transposes_right,
      .adds_bias_after = adds_bias_after,
      .other_moves = without(call.moves, places->left),
      .group = Communicator::of(left.mesh()).group(left.mesh(), {*mesh_dim}),
      .dim = dim,
      .size = left.sizes()[dim],
      .overlap = CallOverlap(call.operands[places->left], *mesh_dim, overlap)});
}

bool runs_overlapped(const PreparedCall& call) {
  return call.overlapped != nullptr && MoveObserver::of_thread() == nullptr && LocalRecorder::of_thread() == nullptr &&
      call.overlapped->overlap.is_on();
}

std::shared_ptr<const Explanation> current_explanation(const PreparedCall& call) {
  // A strict scope forbids communication, and deciding whether to overlap may measure.
  if (call.overlapped == nullptr || Scopes::of_thread().strict || !runs_overlapped(call)) {
    return call.explanation;
  }
  const auto& overlapped = *call.overlapped;
  auto fused = std::make_shared<Explanation>(*call.explanation);
  const auto number = std::to_string(overlapped.left) + ": ";
  for (auto& plan : fused->plans) {
    if (plan.starts_with(number)) {
      plan += c10::str(" overlapped with the matmul, chunks per rank: ", overlapped.overlap.chunks());
    }
  }
  fused->why += "; fused: " + overlapped.overlap.reason();
  return fused;
}

at::Tensor run_overlapped(
    const OverlappedCall& overlapped,
    const std::string& op,
    c10::ArrayRef<at::Tensor> locals,
    c10::ArrayRef<c10::IValue> arguments) {
  const OperatorScope scope(op.c_str());
  const auto& right = locals[overlapped.right];
  const GatherMatmulOptions options{
      .dim = overlapped.dim, .size = overlapped.size, .chunks = overlapped.overlap.chunks()};
  // addmm computes beta * bias + alpha * product.
  const bool has_factors = op == "aten::addmm";
  const auto beta = has_factors ? arguments[3].toScalar() : at::Scalar(1);
  const auto alpha = has_factors ? arguments[4].toScalar() : at::Scalar(1);
  const bool is_plain_sum = beta.equal(1) && alpha.equal(1) && !overlapped.adds_bias_after;
  std::vector<at::Tensor> biases;
  if (overlapped.bias && is_plain_sum) {
    biases.push_back(locals[*overlapped.bias]);
  }
  auto product = all_gather_matmul(
                     *overlapped.group, locals[overlapped.left], {overlapped.transposes_right ? right.t() : right},
                     biases, options)
                     .outputs[0];
  if (!overlapped.bias || is_plain_sum) {
    return product;
  }
  product = alpha.equal(1) ? product : product.mul_(alpha);
  // As in torch, beta = 0 ignores the bias even if it holds inf or nan.
  return beta.equal(0) ? product : product.add_(locals[*overlapped.bias], beta);
}

} // namespace weft
