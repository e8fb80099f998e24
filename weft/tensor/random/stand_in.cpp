#include "weft/tensor/random/stand_in.h"

#include "weft/propagation/operator_schema.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>

#include <set>

namespace weft {

namespace {

using torch::jit::Stack;

size_t first_argument(const c10::OperatorHandle& op, const Stack& stack) {
  return stack.size() - op.schema().arguments().size();
}

/// Whether the operator overwrites all of its first argument without reading it.
bool only_fills(const c10::OperatorHandle& op) {
  static const std::set<std::string> kFills = {"aten::fill_",       "aten::zero_",       "aten::copy_",
                                               "aten::uniform_",    "aten::normal_",     "aten::random_",
                                               "aten::log_normal_", "aten::cauchy_",     "aten::geometric_",
                                               "aten::bernoulli_",  "aten::exponential_"};
  return kFills.contains(op.schema().name());
}

/// Whether the operator writes to its first argument and returns it.
bool is_in_place(const c10::OperatorHandle& op) {
  const OperatorSchema schema(op.schema());
  return schema.written == std::vector<int64_t>{0} && schema.returns.size() == 1 && schema.returns[0].stored_in == 0;
}

/// The tensor that owns the memory of `tensor`, for which a stand-in can be made; undefined if that is not possible.
at::Tensor owner_of(const at::Tensor& tensor) {
  if (!is_dtensor(tensor) || as_dtensor(tensor)->is_copy_of_base()) {
    return {};
  }
  const at::Tensor owner = tensor.is_view() ? at::Tensor(tensor._base()) : tensor;
  const auto* impl = as_dtensor(owner);
  const bool is_owner = impl != nullptr && impl->storage_offset() == 0 && impl->spec()->is_contiguous() &&
      impl->spec()->mesh().is_member() && !impl->spec()->layout().has_partial() && !owner.is_meta() &&
      impl->local().is_contiguous();
  if (!is_owner || (c10::GradMode::is_enabled() && owner.requires_grad())) {
    return {};
  }
  return owner;
}

/// The offset of each element of `view` in the memory of the tensor that it is a view of.
at::Tensor places_of(const at::Tensor& view) {
  auto places = at::full({}, view.storage_offset(), at::kLong);
  for (int64_t d = 0; d < view.dim(); ++d) {
    places = places.unsqueeze(-1) + at::arange(view.size(d), at::kLong) * view.stride(d);
  }
  return places.flatten();
}

/// The local index for each of the global `indices` of a tensor dim; -1 for those that this rank does not hold.
at::Tensor local_positions(const at::Tensor& indices, const TensorSpec& spec, int64_t tensor_dim) {
  auto positions = at::full_like(indices, -1);
  int64_t before = 0;
  const auto& mesh = spec.mesh();
  for (const auto& run :
       local_runs(spec.sizes()[tensor_dim], tensor_dim, spec.layout(), mesh.shape(), mesh.coordinate())) {
    const auto is_held = indices.ge(run.begin).logical_and_(indices.lt(run.begin + run.length));
    positions = at::where(is_held, indices + (before - run.begin), positions);
    before += run.length;
  }
  return positions;
}

/// Writes `values`, of the shape of `view`, to the elements of the tensor that this rank holds.
void write_held_elements(const DTensorImpl& tensor, const at::Tensor& view, const at::Tensor& values) {
  const auto& spec = *tensor.spec();
  const auto& local = tensor.local();
  const auto places = places_of(view);
  auto is_held = at::ones_like(places, at::kBool);
  auto own = at::zeros_like(places);
  for (int64_t d = 0; d < spec.dim(); ++d) {
    const auto indices = places.div(spec.strides()[d], "floor").remainder_(spec.sizes()[d]);
    const auto positions = local_positions(indices, spec, d);
    is_held.logical_and_(positions.ge(0));
    own.add_(positions * local.stride(d));
  }
  const auto chosen = own.masked_select(is_held).to(local.device());
  local.view({-1}).index_copy_(0, chosen, values.flatten().masked_select(is_held).to(local.device()));
}

} // namespace

const at::Tensor* StandIns::original_of(const c10::IValue& value) const {
  if (!value.isTensor() || !value.toTensor().defined() || !value.toTensor().is_meta() || is_dtensor(value.toTensor())) {
    return nullptr;
  }
  const auto found = originals_.find(value.toTensor().storage().unsafeGetStorageImpl());
  return found == originals_.end() ? nullptr : &found->second.tensor;
}

at::Tensor StandIns::behind(const at::Tensor& stand_in) {
  is_resolving_ = true;
  const auto done = c10::make_scope_exit([&] { is_resolving_ = false; });
  return original_of(stand_in)->as_strided(stand_in.sizes(), stand_in.strides(), stand_in.storage_offset());
}

bool StandIns::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (is_resolving_) {
    return false;
  }
  const bool is_view = OperatorSchema(op.schema()).is_view;
  bool takes_one = false;
  for (auto i = first_argument(op, *stack); i < stack->size(); ++i) {
    takes_one |= original_of((*stack)[i]) != nullptr;
  }
  if (!takes_one) {
    return is_view && makes_one(op, keys, stack);
  }
  if (is_view) {
    op.redispatchBoxed(keys, stack);
  } else if (is_in_place(op) && original_of((*stack)[first_argument(op, *stack)]) != nullptr) {
    write(op, stack);
  } else {
    read(op, stack);
  }
  return true;
}

bool StandIns::makes_one(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto first = first_argument(op, *stack);
  const auto self = (*stack)[first].isTensor() ? (*stack)[first].toTensor() : at::Tensor();
  const auto owner = owner_of(self);
  if (!owner.defined()) {
    return false;
  }
  const Stack arguments(stack->begin() + static_cast<int64_t>(first), stack->end());
  try {
    const StrictScope strict;
    op.redispatchBoxed(keys, stack);
    return true;
  } catch (const c10::Error&) {
    // The view would have to redistribute the tensor; or the call is invalid, and then raises for a tensor on meta
    // below too.
    stack->resize(first);
    stack->insert(stack->end(), arguments.begin(), arguments.end());
  }
  const auto twin = at::empty(owner.sizes(), owner.options().device(at::kMeta));
  originals_[twin.storage().unsafeGetStorageImpl()] = {twin, owner};
  (*stack)[first] = twin.as_strided(self.sizes(), self.strides(), self.storage_offset());
  op.callBoxed(stack);
  return true;
}

void StandIns::write(const c10::OperatorHandle& op, Stack* stack) {
  const auto first = first_argument(op, *stack);
  const auto view = (*stack)[first].toTensor();
  const auto original = *original_of((*stack)[first]);
  const auto values = at::empty_strided(view.sizes(), view.strides(), view.options().device(at::kCPU));
  if (!only_fills(op)) {
    values.copy_(full_tensor(behind(view)));
  }
  for (auto i = first + 1; i < stack->size(); ++i) {
    if (original_of((*stack)[i]) != nullptr) {
      (*stack)[i] = behind((*stack)[i].toTensor());
    }
    if ((*stack)[i].isTensor() && is_dtensor((*stack)[i].toTensor())) {
      (*stack)[i] = full_tensor((*stack)[i].toTensor()).cpu();
    }
  }
  (*stack)[first] = values;
  op.callBoxed(stack);
  stack->back() = view;
  as_dtensor(original)->count_write();
  write_held_elements(*as_dtensor(original), view, values);
  original.unsafeGetTensorImpl()->bump_version();
}

void StandIns::read(const c10::OperatorHandle& op, Stack* stack) {
  for (auto i = first_argument(op, *stack); i < stack->size(); ++i) {
    if (original_of((*stack)[i]) != nullptr) {
      (*stack)[i] = behind((*stack)[i].toTensor());
    }
  }
  op.callBoxed(stack);
}

} // namespace weft
