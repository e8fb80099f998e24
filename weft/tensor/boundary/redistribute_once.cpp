#include "weft/tensor/boundary/redistribute_once.h"

#include "weft/redistribute/local_recorder.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/impl/autograd_alias.h"
#include "weft/tensor/impl/autograd_node.h"
#include "weft/tensor/impl/move_observer.h"

namespace weft {

namespace {

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
  /// The redistributed tensor, unless it shares the tensor's memory: then it would keep the tensor alive, and the
  /// tensor would keep it alive. Such a result is a new view at every use. All views have `node` as their gradient
  /// function as long as a graph holds that node; afterwards redistribute makes a new node, with the same
  /// communication.
  at::Tensor result;
  uint32_t result_version = 0;
  /// The write counts of the tensor's and the result's memory when the result was made.
  uint64_t writes = 0;
  uint64_t result_writes = 0;
  /// The places (see the header) that have used the result.
  c10::SmallVector<const void*, 4> places = {};
  WeakNodePtr node;
};

namespace {

bool is_still(const SharedMove& move, const at::Tensor& tensor, const Layout& layout) {
  return move.layout == layout && move.version == tensor._version() && move.was_recorded == is_recorded(tensor);
}

/// A view of the tensor whose gradient function is an existing node.
at::Tensor view_behind(const at::Tensor& tensor, const Layout& layout, NodePtr node) {
  const auto view = view_of(tensor, alias_in(tensor, layout));
  torch::autograd::impl::set_gradient_edge(view, {std::move(node), 0});
  return view;
}

at::Tensor find(SharedMove& move, const at::Tensor& tensor, const Layout& layout, const void* place) {
  if (!is_still(move, tensor, layout)) {
    return {};
  }
  if (!move.result.defined()) {
    auto node = move.node.lock();
    return node ? view_behind(tensor, layout, std::move(node)) : at::Tensor();
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

/// Whether a kept result is part of what this thread records, if it records.
bool is_in_recording(const at::Tensor& result) {
  const auto* recorder = LocalRecorder::of_thread();
  return C10_LIKELY(recorder == nullptr) || recorder->has_seen(as_dtensor(result)->local());
}

} // namespace

at::Tensor redistribute_once(const at::Tensor& tensor, const Layout& layout, const void* place) {
  auto* impl = as_dtensor(tensor);
  // The graph of a result made from a leaf holds the leaf, so that keeping the result in the leaf would be a cycle.
  // On a mesh of one rank nothing is communicated, neither here nor in backward.
  const bool is_shared = impl != nullptr && impl->spec()->mesh().size() > 1 && !tensor.is_inference() &&
      !(tensor.is_leaf() && tensor.requires_grad());
  if (!is_shared || MoveObserver::of_thread() != nullptr) {
    return redistribute(tensor, layout);
  }
  if (const auto shared = impl->shared_move(); shared && !impl->is_stale()) {
    if (auto found = find(*shared, tensor, layout, place); found.defined() && is_in_recording(found)) {
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
  if (as_dtensor(result)->memory() == impl->memory()) {
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
