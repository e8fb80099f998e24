#include "weft/tensor/redistribute_once.h"

#include "weft/tensor/boundary.h"
#include "weft/tensor/redistribute.h"

namespace weft {

struct SharedMove {
  Layout layout;
  bool was_recorded; // by autograd
  uint32_t version;  // of the tensor
  uint32_t result_version;
  /// Strong, unless the result is a view of the tensor, which holds it: the two would keep each other alive. Whether a view
  /// is found makes no difference to what is communicated: it only counts where a graph that holds it is still in use.
  at::Tensor result;
  c10::weak_intrusive_ptr<c10::TensorImpl> view;

  at::Tensor found() const {
    return result.defined() ? result : at::Tensor(view.lock());
  }
};

namespace {

bool has_version(const at::Tensor& tensor) {
  return !tensor.is_inference();
}

at::Tensor find(const SharedMove& move, const at::Tensor& tensor, const Layout& layout) {
  if (move.layout != layout || move.was_recorded != is_recorded(tensor) || move.version != tensor._version()) {
    return {};
  }
  const auto found = move.found();
  return found.defined() && found._version() == move.result_version ? found : at::Tensor();
}

} // namespace

at::Tensor redistribute_once(const at::Tensor& tensor, const Layout& layout) {
  auto* impl = as_dtensor(tensor);
  // The graph of what is made of a leaf holds the leaf.
  const bool is_shared = impl != nullptr && has_version(tensor) && !(tensor.is_leaf() && tensor.requires_grad());
  if (!is_shared) {
    return redistribute(tensor, layout);
  }
  if (const auto& shared = impl->shared_move()) {
    if (auto found = find(*shared, tensor, layout); found.defined()) {
      return found;
    }
  }
  const auto result = redistribute(tensor, layout);
  if (result.is_same(tensor) || !has_version(result)) {
    return result;
  }
  const bool is_view = impl->spec()->layout() == layout;
  impl->share_move(std::make_shared<const SharedMove>(SharedMove{
      .layout = layout,
      .was_recorded = is_recorded(tensor),
      .version = static_cast<uint32_t>(tensor._version()),
      .result_version = static_cast<uint32_t>(result._version()),
      .result = is_view ? at::Tensor() : result,
      .view = c10::weak_intrusive_ptr<c10::TensorImpl>(result.getIntrusivePtr())}));
  return result;
}

} // namespace weft
