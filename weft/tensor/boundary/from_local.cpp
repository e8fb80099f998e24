#include "weft/tensor/boundary/from_local.h"

#include "weft/comm/collectives.h"
#include "weft/core/checked_layout.h"
#include "weft/core/layout_algebra.h"
#include "weft/tensor/boundary/agreement.h"
#include "weft/tensor/boundary/plain_tensor.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/autograd_node.h"
#include "weft/tensor/impl/call_cache.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/install_dispatch.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/open_sizes.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>

#include <numeric>

namespace weft {

namespace {

/// The global sizes if every rank holds as much as this one. A ragged shard says by its lengths how many indices its mesh dim
/// divides; the mesh dims before it in shard order multiply them.
///
///   3 rows under {S(0), S(0|3:5)} on mesh(a=2,b=2)   ->   16 rows, since each rank of a has 8
///   2 rows under {S(0|3:5), S(0)}                    ->   8 rows
c10::DimVector sizes_of_all(c10::IntArrayRef local, const DeviceMesh& mesh, const Layout& layout) {
  c10::DimVector sizes(local);
  for (size_t d = 0; d < sizes.size(); ++d) {
    const auto order = layout.shard_order(static_cast<int64_t>(d));
    for (auto m = order.rbegin(); m != order.rend(); ++m) {
      const auto& placement = layout[*m];
      const auto lengths = placement.is_ragged() ? placement.lengths() : c10::IntArrayRef();
      sizes[d] = placement.is_ragged() ? std::accumulate(lengths.begin(), lengths.end(), int64_t{0})
                                       : sizes[d] * mesh.size(*m);
    }
  }
  return sizes;
}

bool has_ragged_shard(const Layout& layout) {
  const auto placements = layout.placements();
  return std::any_of(placements.begin(), placements.end(), [](const Placement& p) { return p.is_ragged(); });
}

SpecPtr spec_for(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FromLocalOptions& options) {
  TORCH_CHECK_VALUE(
      options.shape.has_value() == options.stride.has_value(),
      "[from_local] shape and stride must be given together, but got ",
      options.shape ? c10::str("the shape ", c10::IntArrayRef(*options.shape))
                    : c10::str("the stride ", c10::IntArrayRef(options.stride.value_or(std::vector<int64_t>()))),
      " alone. Give both where the local tensors differ in size, and none where they do not.");
  if (!options.shape) {
    const auto sizes = sizes_of_all(local.sizes(), mesh, layout);
    return local.is_contiguous()
        ? TensorSpec::make(mesh, layout, sizes, local.scalar_type())
        : TensorSpec::make(mesh, layout, sizes, strides_as_in(local, sizes), local.scalar_type());
  }
  const bool has_dims = static_cast<int64_t>(options.shape->size()) == local.dim() || !mesh.is_member();
  TORCH_CHECK_VALUE(
      has_dims && options.stride->size() == options.shape->size(), "[from_local] shape and stride must have the ",
      local.dim(), " dims of the local tensor, but got shape ", c10::IntArrayRef(*options.shape), " and stride ",
      c10::IntArrayRef(*options.stride), ".");
  const auto dense = dense_strides(*options.shape, dims_by_stride(*options.shape, *options.stride));
  TORCH_CHECK_VALUE(
      same_strides(*options.shape, *options.stride, dense),
      "[from_local] stride must be that of a tensor without gaps and overlaps, but got ",
      c10::IntArrayRef(*options.stride), " for the shape ", c10::IntArrayRef(*options.shape),
      ". Give the strides of the contiguous tensor, or of a permutation of it.");
  return TensorSpec::make(mesh, layout, *options.shape, *options.stride, local.scalar_type());
}

/// Broadcasts the values of the first rank along the replicated mesh dims.
at::Tensor from_first_rank(const at::Tensor& local, const TensorSpec& spec) {
  MeshDims replicated;
  for (int64_t m = 0; m < spec.mesh().ndim(); ++m) {
    if (spec.layout()[m].is_replicate()) {
      replicated.push_back(m);
    }
  }
  const bool has_none = replicated.empty() || local.is_meta();
  return has_none ? local : broadcast(local.contiguous(), spec.mesh(), replicated, /*root=*/0).wait();
}

at::Tensor wrapped(const at::Tensor& local, const DTensorImpl& like, bool run_check) {
  const auto& spec = *like.spec();
  auto held = untracked(local);
  held = in_stride_order(run_check ? from_first_rank(held, spec) : std::move(held), spec);
  if (debug_enabled()) {
    check_replicas_agree("from_local", held, spec, ReplicaClaim::Values);
  }
  auto result = make_dtensor_like(like, at::Tensor(held));
  share_version(result, held);
  return result;
}

at::Tensor wrap(const at::Tensor& local, const DTensorImpl& like, bool run_check) {
  return observed(local, [&] { return wrapped(local, like, run_check); });
}

/// Redistributes the gradient to a layout that may be partial: first to R on the mesh dims that become partial, because
/// there is no direct step from S to P.
at::Tensor moved_to(const at::Tensor& gradient, const Layout& layout) {
  const auto& source = spec_of(gradient)->layout();
  const auto between =
      replicated_where(layout, [&](int64_t m) { return layout[m].is_partial() && source[m] != layout[m]; });
  const auto moved = redistribute(gradient, between);
  return between == layout ? moved : redistribute(moved, layout);
}

/// Redistributes the gradient, of which the local tensor then is the gradient of the local tensor.
class FromLocalNode : public UnaryNode {
 public:
  FromLocalNode(SpecPtr spec, std::optional<Layout> gradient_layout)
      : spec_(std::move(spec)), gradient_layout_(std::move(gradient_layout)) {}

  at::Tensor backward(const at::Tensor& given) override {
    const auto gradient = distributed_on_meta(given, spec_->mesh());
    const auto& mesh = checked_dtensor("from_local", gradient).spec()->mesh();
    // On a mesh of one rank the local tensor is the same in every layout.
    const auto moved = mesh.size() == 1
        ? gradient
        : moved_to(gradient, gradient_layout_ ? *gradient_layout_ : without_partial(spec_->layout()));
    // Returns the local tensor itself where nothing is recorded: AccumulateGrad then sees its use count, and copies the
    // gradient if something else holds it.
    const auto local = is_recorded(moved)
        ? to_local(moved, {.grad_placements = with_sums_for_averages(spec_->layout())})
        : observed(moved, [&] { return as_dtensor(moved)->local(); });
    const auto terms = averaged_over(*spec_);
    return terms == 1 ? local : local / terms;
  }
  std::string name() const override {
    return "weft::from_local";
  }

 private:
  SpecPtr spec_;
  std::optional<Layout> gradient_layout_; // if the user gave one
};

/// A global shape that was computed from a local one gives every rank that local shape, except where a shard is strided and
/// uneven, or ragged: then the local shape has to be checked.
bool has_uneven_shard(const Layout& layout) {
  const auto placements = layout.placements();
  return std::any_of(
      placements.begin(), placements.end(), [](const Placement& p) { return p.is_strided() || p.is_ragged(); });
}

at::Tensor outside_of_mesh(const at::Tensor& local, const SpecPtr& spec) {
  const auto nothing = at::empty(spec->local_shape_and_offset().shape, local.options().requires_grad(false));
  return make_dtensor(nothing, spec).set_requires_grad(local.requires_grad());
}

PreparedOutput prepare_wrap(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FromLocalOptions& options) {
  const auto ndim = options.shape ? static_cast<int64_t>(options.shape->size()) : local.dim();
  const auto placements = checked_layout("from_local", mesh, layout, ndim);
  auto output = PreparedOutput::of(spec_for(local, mesh, placements, options), local.device());
  if (!options.run_check && mesh.is_member() && (options.shape || has_uneven_shard(placements))) {
    check_local_shape(
        "from_local", local.sizes(), output.spec->local_shape_and_offset().shape, mesh.world()->rank(), *output.spec);
  }
  return output;
}

/// As prepare_wrap, for a contiguous tensor and a global shape that is computed from the local one. Kept in the cache of
/// calls.
const PreparedOutput& prepared_wrap(const at::Tensor& local, const DeviceMesh& mesh, const Layout& layout) {
  static const char kOfWraps = 0;
  CallKey key;
  key.add(reinterpret_cast<uintptr_t>(&kOfWraps));
  key.add(reinterpret_cast<uintptr_t>(mesh.ranks().data())); // the copies of a mesh share it
  key.add(static_cast<uint64_t>(local.scalar_type()));
  key.add(std::hash<c10::Device>()(local.device()));
  key.add(layout);
  for (const auto size : local.sizes()) {
    key.add(size);
  }
  auto& cache = CallCache::of_thread();
  const auto* found = cache.find(key);
  if (found == nullptr) {
    PreparedCall call;
    call.mesh = mesh;
    call.outputs = {prepare_wrap(local, mesh, layout, {})};
    found = &cache.add(key, std::move(call));
  }
  return found->outputs[0];
}

} // namespace

at::Tensor from_local(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    const FromLocalOptions& options) {
  install_dispatch();
  TORCH_CHECK_TYPE(
      local.defined() && !is_dtensor(local), "[from_local] a plain tensor is required, but got ",
      local.defined() ? c10::str("a distributed one, ", *spec_of(local), ". Use redistribute to change its placements.")
                      : std::string("an undefined one."));
  check_has_dense_memory("from_local", local);
  TORCH_CHECK_VALUE(mesh.defined(), "[from_local] a mesh is required, but got none. Make one with init_device_mesh.");
  if (has_open_sizes(local)) {
    return over_open_sizes(local, [=](const at::Tensor& sized) { return from_local(sized, mesh, layout, options); });
  }
  if (!is_on_device_of(mesh, local)) {
    return from_local(on_device_of(mesh, local), mesh, layout, options);
  }
  const bool is_kept = !options.shape && !options.stride && !options.run_check && local.is_contiguous();
  const auto made = is_kept ? PreparedOutput() : prepare_wrap(local, mesh, layout, options);
  const auto& prepared = is_kept ? prepared_wrap(local, mesh, layout) : made;
  const auto& spec = prepared.spec;
  const bool is_dual = has_tangent(local);
  const bool has_gradient = is_recorded(local);
  std::optional<Layout> gradient_layout;
  if (options.grad_placements) {
    gradient_layout = checked_gradient_layout("from_local", *spec, options.grad_placements);
  }
  if (has_gradient || is_dual) {
    check_has_gradient("from_local", *spec);
  }
  if (C10_UNLIKELY(is_dual)) {
    return with_tangent(local, [&](const at::Tensor& each) { return from_local(each, mesh, layout, options); });
  }
  if (!mesh.is_member()) {
    return outside_of_mesh(local, spec);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      !options.run_check || !is_traced(local),
      "[from_local] run_check compares values, which a traced tensor has none of, but got it for ", *spec,
      ". Leave it out, or call from_local outside of the compiled function.");
  if (options.run_check) {
    check_locals_agree("from_local", local, *spec, options.shape.has_value() || has_ragged_shard(spec->layout()));
  }
  const at::NoGradGuard no_graph;
  auto result = wrap(local, *prepared.like, options.run_check);
  if (has_gradient) {
    record<FromLocalNode>(local, result, spec, std::move(gradient_layout));
  }
  return result;
}

at::Tensor wrap_local(const at::Tensor& local, const DTensorImpl& like) {
  return wrap(local, like, /*run_check=*/false);
}

FromLocalOptions with_global_shape(c10::IntArrayRef shape) {
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  const auto stride = dense_strides(shape, order);
  return {.shape = shape.vec(), .stride = std::vector<int64_t>(stride.begin(), stride.end())};
}

at::Tensor distributed_on_meta(const at::Tensor& gradient, const DeviceMesh& mesh) {
  return is_dtensor(gradient) || !gradient.is_meta() ? gradient : from_local(gradient, mesh, replicated(mesh));
}

} // namespace weft
