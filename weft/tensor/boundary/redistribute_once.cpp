#include "weft/tensor/boundary/redistribute_once.h"

#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/move_observer.h"

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
  /// Writes to the memory of the tensor, and to that of the result, when it was made.
  uint64_t writes = 0;
  uint64_t result_writes = 0;
  /// Where the result has been used.
  c10::SmallVector<const void*, 4> places = {};
  WeakNodePtr node;
};

namespace {

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

at::Tensor find(SharedMove& move, const at::Tensor& tensor, const Layout& layout, const void* place) {
  if (!is_still(move, tensor, layout)) {
    return {};
  }
  if (!move.result.defined()) {
    auto node = move.node.lock();
    return node ? view_behind(tensor, std::move(node)) : at::Tensor();
  }
  const bool is_unchanged = move.result._version() == move.result_version &&
      as_dtensor(tensor)->memory()->writes() == move.writes &&
      as_dtensor(move.result)->memory()->writes() == move.result_writes;
  const bool is_new_place = std::find(move.places.begin(), move.places.end(), place) == move.places.end();
  if (!is_unchanged || !is_new_place) {
    return {};
  }
  move.places.push_back(place);
  return move.result;
}

} // namespace

at::Tensor redistribute_once(const at::Tensor& tensor, const Layout& layout, const void* place) {
  auto* impl = as_dtensor(tensor);
  // The graph of what is made of a leaf holds the leaf.
  const bool is_shared = impl != nullptr && !tensor.is_inference() && !(tensor.is_leaf() && tensor.requires_grad());
  if (!is_shared || MoveObserver::of_thread() != nullptr) {
    return redistribute(tensor, layout);
  }
  if (const auto& shared = impl->shared_move(); shared && !impl->is_stale()) {
    if (auto found = find(*shared, tensor, layout, place); found.defined()) {
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
  } else if (!result.is_inference()) {
    move.result = result;
    move.result_version = static_cast<uint32_t>(result._version());
    move.writes = impl->memory()->writes();
    move.result_writes = as_dtensor(result)->memory()->writes();
    move.places = {place};
  }
  impl->share_move(std::make_shared<SharedMove>(std::move(move)));
  return result;
}

} // namespace weft
