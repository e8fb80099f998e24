#include "weft/redistribute/traced_redistribution.h"

#include "weft/redistribute/functional_group.h"
#include "weft/redistribute/transfer.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>

namespace weft {

namespace {

bool has_elements(const Box& box, int64_t ndim) {
  return static_cast<int64_t>(box.dims.size()) == ndim && !box.is_empty();
}

/// The elements of a tensor that a box describes, at their held positions.
at::Tensor held_by(at::Tensor tensor, const Box& box) {
  for (size_t d = 0; d < box.dims.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    std::vector<at::Tensor> ranges;
    for (const auto& range : box.dims[d]) {
      const bool is_full = range.held_begin == 0 && range.length == tensor.size(dim);
      ranges.push_back(is_full ? tensor : tensor.narrow(dim, range.held_begin, range.length));
    }
    tensor = ranges.size() == 1 ? ranges[0] : at::cat(ranges, dim);
  }
  return tensor;
}

/// Copies a message to its wanted positions.
void copy_to_wanted(const at::Tensor& to, const at::Tensor& message, const Box& box, size_t dim = 0) {
  if (dim == box.dims.size()) {
    to.copy_(message);
    return;
  }
  const auto d = static_cast<int64_t>(dim);
  for (const auto& range : box.dims[dim]) {
    copy_to_wanted(
        to.narrow(d, range.wanted_begin, range.length), message.narrow(d, range.held_begin, range.length), box,
        dim + 1);
  }
}

/// A step that transfers data: what this rank sends and receives.
class TracedTransfer {
 public:
  TracedTransfer(const Step& step, const TensorSpec& spec)
      : group_(spec.mesh(), step.mesh_dims),
        transfer_(transfer(step, spec.sizes(), spec.mesh().shape(), spec.mesh().coordinate())),
        ndim_(spec.dim()) {}

  at::Tensor slice(const at::Tensor& local) const {
    return has_elements(transfer_.sends[0], ndim_) ? held_by(local, transfer_.sends[0]).contiguous()
                                                   : local.new_empty(transfer_.shape_after);
  }

  at::Tensor reduce_scatter(const at::Tensor& local, ReduceOp op) const {
    std::vector<at::Tensor> terms;
    int64_t longest = 0;
    for (const auto& box : transfer_.sends) {
      terms.push_back(has_elements(box, ndim_) ? held_by(local, box) : local.new_empty(box.shape()));
      longest = std::max(longest, terms.back().numel());
    }
    const bool are_equal = std::all_of(
        terms.begin(), terms.end(), [&](const at::Tensor& term) { return term.sizes() == terms[0].sizes(); });
    if (are_equal && ndim_ > 0) {
      return group_.reduce_scatter(are_rows_in_order(local) ? local : at::cat(terms, 0), op);
    }
    for (auto& term : terms) {
      term = at::constant_pad_nd(term.reshape({-1}), {0, longest - term.numel()});
    }
    const auto own = group_.reduce_scatter(at::cat(terms, 0), op);
    return own.narrow(0, 0, c10::multiply_integers(transfer_.shape_after)).view(transfer_.shape_after);
  }

  at::Tensor all_gather(const at::Tensor& local) const {
    if (c10::multiply_integers(transfer_.shape_after) == 0) {
      return local.new_empty(transfer_.shape_after); // on all members: they receive the same
    }
    const auto shapes = received_shapes();
    const bool are_equal =
        std::all_of(shapes.begin(), shapes.end(), [&](const auto& shape) { return shape == shapes[0]; });
    if (are_equal && ndim_ > 0) {
      const auto gathered = group_.all_gather(local);
      return joined_dim() == 0 ? gathered : joined(gathered.chunk(group_.size(), 0), local);
    }
    int64_t longest = 0;
    for (const auto& shape : shapes) {
      longest = std::max(longest, c10::multiply_integers(shape));
    }
    const auto gathered = group_.all_gather(at::constant_pad_nd(local.reshape({-1}), {0, longest - local.numel()}));
    std::vector<at::Tensor> messages;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const auto count = c10::multiply_integers(shapes[i]);
      messages.push_back(
          count == 0 ? at::Tensor() : gathered.narrow(0, static_cast<int64_t>(i) * longest, count).view(shapes[i]));
    }
    return joined(messages, local);
  }

  at::Tensor all_to_all(const at::Tensor& local) const {
    std::vector<at::Tensor> sends;
    for (const auto& box : transfer_.sends) {
      sends.push_back(has_elements(box, ndim_) ? held_by(local, box) : at::Tensor());
    }
    return joined(group_.all_to_all(sends, received_shapes(), local.options()), local);
  }

 private:
  /// Whether the boxes to send, of one size, are the tensor's rows in order.
  bool are_rows_in_order(const at::Tensor& local) const {
    int64_t begin = 0;
    for (const auto& box : transfer_.sends) {
      if (!has_elements(box, ndim_) || !box.is_single() || box.dims[0][0].held_begin != begin) {
        return false;
      }
      for (int64_t d = 1; d < ndim_; ++d) {
        if (box.dims[d][0].length != local.size(d)) {
          return false;
        }
      }
      begin += box.dims[0][0].length;
    }
    return true;
  }

  std::vector<c10::DimVector> received_shapes() const {
    std::vector<c10::DimVector> shapes;
    for (const auto& box : transfer_.recvs) {
      shapes.push_back(has_elements(box, ndim_) ? box.shape() : c10::DimVector{0});
    }
    return shapes;
  }

  /// The dim along which the received boxes are adjacent, in the order of the members; nullopt if they are not.
  std::optional<int64_t> joined_dim() const {
    const auto& shape = transfer_.shape_after;
    std::optional<int64_t> found;
    int64_t end = 0;
    for (const auto& box : transfer_.recvs) {
      if (!has_elements(box, ndim_)) {
        continue;
      }
      if (!box.is_single()) {
        return std::nullopt;
      }
      const auto extent = box.shape();
      for (int64_t d = 0; d < ndim_ && !found; ++d) {
        found = extent[d] != shape[d] ? std::optional(d) : std::nullopt;
      }
      const auto dim = found.value_or(0);
      for (int64_t d = 0; d < ndim_; ++d) {
        if (box.dims[d][0].wanted_begin != (d == dim ? end : 0) || (d != dim && extent[d] != shape[d])) {
          return std::nullopt;
        }
      }
      end += ndim_ == 0 ? 0 : extent[dim];
    }
    const auto dim = found.value_or(0);
    return ndim_ > 0 && end == shape[dim] ? std::optional(dim) : std::nullopt;
  }

  at::Tensor joined(const std::vector<at::Tensor>& messages, const at::Tensor& local) const {
    std::vector<at::Tensor> present;
    std::copy_if(messages.begin(), messages.end(), std::back_inserter(present), [](const at::Tensor& each) {
      return each.defined();
    });
    if (const auto dim = joined_dim(); dim && !present.empty()) {
      return present.size() == 1 ? present[0].contiguous() : at::cat(present, *dim);
    }
    const auto result = local.new_empty(transfer_.shape_after);
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].defined()) {
        copy_to_wanted(result, messages[i], transfer_.recvs[i]);
      }
    }
    return result;
  }

  FunctionalGroup group_;
  Transfer transfer_;
  int64_t ndim_;
};

at::Tensor made_partial(const Step& step, const DeviceMesh& mesh, const at::Tensor& local) {
  for (const auto m : step.mesh_dims) {
    const auto op = step.after[m].reduce_op();
    if (mesh.rank(m) != 0 && (op == ReduceOp::Sum || op == ReduceOp::Product)) {
      return op == ReduceOp::Sum ? at::zeros_like(local) : at::ones_like(local);
    }
  }
  return local;
}

/// Averages over some mesh dims and sums over others are one sum that is divided.
template <class Reduce>
at::Tensor reduced(const Step& step, const DeviceMesh& mesh, const at::Tensor& local, const Reduce& reduce) {
  const auto [op, divisor] = reduction_of(step, mesh.shape());
  const bool divides_first = divisor > 1 && local.scalar_type() == at::kHalf;
  const auto result = reduce(divides_first ? local.div(divisor) : local, op);
  return divisor == 1 || divides_first ? result : result.div(divisor);
}

at::Tensor run_step(const Step& step, const TensorSpec& spec, const at::Tensor& local) {
  const auto& mesh = spec.mesh();
  switch (step.kind) {
    case StepKind::MakePartial:
      return made_partial(step, mesh, local);
    case StepKind::AllReduce:
      return reduced(step, mesh, local, [&](const at::Tensor& term, ReduceOp op) {
        return FunctionalGroup(mesh, step.mesh_dims).all_reduce(term, op);
      });
    case StepKind::ReduceScatter:
      return reduced(step, mesh, local, [&](const at::Tensor& term, ReduceOp op) {
        return TracedTransfer(step, spec).reduce_scatter(term, op);
      });
    case StepKind::Slice:
      return TracedTransfer(step, spec).slice(local);
    case StepKind::AllGather:
      return TracedTransfer(step, spec).all_gather(local);
    case StepKind::AllToAll:
      return TracedTransfer(step, spec).all_to_all(local);
  }
  TORCH_INTERNAL_ASSERT(false);
}

} // namespace

at::Tensor run_traced(const Plan& plan, const at::Tensor& local) {
  auto current = local.resolve_conj().resolve_neg();
  for (const auto& step : plan.steps) {
    current = run_step(step, *plan.source, current);
  }
  return current;
}

} // namespace weft
