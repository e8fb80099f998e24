#include "weft/tensor/redistribute_once.h"

#include "weft/tensor/boundary.h"
#include "weft/tensor/move_observer.h"
#include "weft/tensor/redistribute.h"

#include <torch/csrc/autograd/variable.h>

namespace weft {

namespace {

/// How nodes of autograd's graph are held depends on the version of torch.
using NodePtr = std::remove_cvref_t<decltype(std::declval<const at::Tensor&>().grad_fn())>;
template <class>
struct Weak;
template <class T>
struct Weak<std::shared_ptr<T>> {
  using Type = std::weak_ptr<T>;
};
template <class T>
struct Weak<c10::intrusive_ptr<T>> {
  using Type = c10::weak_intrusive_ptr<T>;
};
using WeakNodePtr = Weak<NodePtr>::Type;

} // namespace

struct SharedMove {
  Layout layout;
  uint32_t version;  // of the tensor
  bool was_recorded; // by autograd
  /// What the tensor was redistributed to, unless it shares the tensor's memory: then it would keep the tensor alive, and the
  /// tensor it. That is made again, with the node of this graph for its gradient, as long as a graph leads to the node; where
  /// none does, a node of its own communicates the same.
  at::Tensor result;
  uint32_t result_version = 0;
  /// When the result was made, in the memory of the tensor and in its own.
  LocalMemory::Moment taken = {};
  LocalMemory::Moment made = {};
  WeakNodePtr node;
};

namespace {

/// Whether a plain tensor may share the memory: it was made of one, or handed out as one, and not all of those are gone.
/// Such a tensor can be changed in ways that nobody sees, so that no copy of its values is kept.
bool is_within_reach(const DTensorImpl& tensor) {
  return tensor.memory()->now().exposures > 0 && tensor.local().storage().use_count() > 1;
}

bool is_still(const SharedMove& move, const at::Tensor& tensor, const Layout& layout) {
  return move.layout == layout && move.version == tensor._version() && move.was_recorded == is_recorded(tensor);
}

/// The tensor once more, behind a node that is there already.
at::Tensor view_behind(const at::Tensor& tensor, NodePtr node) {
  const auto view = view_of(tensor);
  auto* meta = torch::autograd::impl::get_view_autograd_meta(view);
  meta->set_creation_meta(torch::autograd::CreationMeta::IN_CUSTOM_FUNCTION); // as of any function's: not to be changed
  torch::autograd::impl::set_gradient_edge(view, {std::move(node), 0});
  return view;
}

at::Tensor find(const SharedMove& move, const at::Tensor& tensor, const Layout& layout) {
  if (!is_still(move, tensor, layout)) {
    return {};
  }
  if (!move.result.defined()) {
    auto node = move.node.lock();
    return node ? view_behind(tensor, std::move(node)) : at::Tensor();
  }
  const bool is_unchanged = move.result._version() == move.result_version &&
      as_dtensor(tensor)->memory()->now() == move.taken && as_dtensor(move.result)->memory()->now() == move.made;
  return is_unchanged ? move.result : at::Tensor();
}

} // namespace

at::Tensor redistribute_once(const at::Tensor& tensor, const Layout& layout) {
  auto* impl = as_dtensor(tensor);
  // The graph of what is made of a leaf holds the leaf.
  const bool is_shared = impl != nullptr && !tensor.is_inference() && !(tensor.is_leaf() && tensor.requires_grad());
  if (!is_shared || MoveObserver::of_thread() != nullptr) {
    return redistribute(tensor, layout);
  }
  if (const auto& shared = impl->shared_move()) {
    if (auto found = find(*shared, tensor, layout); found.defined()) {
      return found;
    }
  }
  const auto result = redistribute(tensor, layout);
  SharedMove move{
      .layout = layout,
      .version = static_cast<uint32_t>(tensor._version()),
      .was_recorded = is_recorded(tensor),
      .result = {},
      .node = WeakNodePtr(NodePtr())};
  if (impl->spec()->layout() == layout) {
    move.node = WeakNodePtr(result.grad_fn());
  } else if (result.is_inference() || is_within_reach(*impl)) {
    return result; // not shared
  } else {
    move.result = result;
    move.result_version = static_cast<uint32_t>(result._version());
    move.taken = impl->memory()->now();
    move.made = as_dtensor(result)->memory()->now();
  }
  impl->share_move(std::make_shared<const SharedMove>(std::move(move)));
  return result;
}

} // namespace weft
