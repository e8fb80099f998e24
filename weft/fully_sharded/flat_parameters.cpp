#include "weft/fully_sharded/flat_parameters.h"

#include "weft/comm/subject_scope.h"
#include "weft/core/layout_algebra.h"
#include "weft/core/shard_math.h"
#include "weft/fully_sharded/mesh_on.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/tensor/boundary/redistribute.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace weft {

namespace {

int64_t row_elements(const c10::DimVector& shape) {
  return shape[0] == 0 ? 0 : c10::multiply_integers(shape) / shape[0];
}

} // namespace

FlatParameters::FlatParameters(
    std::vector<at::Tensor> leaves,
    int64_t mesh_dim,
    std::optional<at::ScalarType> gathered_dtype,
    uint32_t unit,
    std::optional<Offload> offload)
    : leaves_(std::move(leaves)),
      offload_(offload),
      mesh_(offload ? mesh_on(spec(0)->mesh(), offload->device) : spec(0)->mesh()),
      mesh_dim_(mesh_dim),
      cast_to_(gathered_dtype) {
  lay_out();
  make_buffer();
  adopted_.resize(leaves_.size());
  term_layouts_.resize(leaves_.size());
  seen_.resize(leaves_.size());
  subject_ = make_subject(unit, lengths_hash());
  const auto has_values = [](const at::Tensor& leaf) { return !as_dtensor(leaf)->local().is_meta(); };
  if (mesh().is_member() && std::all_of(leaves_.begin(), leaves_.end(), has_values)) {
    adopt(); // before anyone has a view of the leaves
  }
}

SpecPtr FlatParameters::spec_on_mesh(size_t number) const {
  const auto& own = *spec(number);
  return offload_ ? TensorSpec::make(mesh_, own.layout(), own.sizes(), own.strides(), own.dtype()) : spec(number);
}

void FlatParameters::replace(size_t number, at::Tensor leaf) {
  leaves_[number] = std::move(leaf);
  adopted_[number] = nullptr;
  ++writes_;
}

void FlatParameters::lay_out() {
  const auto members = mesh().size(mesh_dim_);
  const auto alignment = kAlignment / static_cast<int64_t>(leaves_[0].element_size());
  int64_t end = 0;
  for (size_t k = 0; k < leaves_.size(); ++k) {
    const auto& layout = spec(k)->layout();
    const auto gathered = layout.with(mesh_dim_, Replicate());
    auto& slot = slots_.emplace_back();
    slot.spec = spec(k);
    slot.dim = layout[mesh_dim_].dim();
    slot.shape = weft::local_shape_and_offset(spec(k)->sizes(), gathered, mesh().shape(), mesh().coordinate()).shape;
    std::rotate(slot.shape.begin(), slot.shape.begin() + slot.dim, slot.shape.begin() + slot.dim + 1);
    slot.begin = (end + alignment - 1) / alignment * alignment;
    end = slot.begin + c10::multiply_integers(slot.shape);
    int64_t row = 0;
    for (const auto length : layout[mesh_dim_].lengths()) {
      slot.bounds.push_back(std::min(row, slot.shape[0]));
      row += length;
    }
    slot.bounds.push_back(slot.shape[0]);
  }
  // A member's range begins with the first parameter of which it, or a later member, holds rows.
  for (int64_t member = 0; member < members; ++member) {
    const auto first = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) {
      return slot.bounds[member] < slot.shape[0] && row_elements(slot.shape) > 0;
    });
    const bool is_none = first == slots_.end();
    bounds_.push_back(
        member == 0   ? 0
            : is_none ? end
                      : first->begin + first->bounds[member] * row_elements(first->shape));
  }
  bounds_.push_back(end);
  for (int64_t member = 0; member < members; ++member) {
    lengths_.push_back(range_length(member));
  }
}

void FlatParameters::make_buffer() {
  // The buffer of the gradients may have votes for each parameter and member as well, at most one per mesh dim.
  const auto votes = static_cast<int64_t>(leaves_.size()) * mesh().size(mesh_dim_) * mesh().ndim();
  const auto dtype = cast_to_.value_or(leaves_[0].scalar_type());
  gathered_.emplace(
      bounds_.back(), at::TensorOptions().dtype(dtype).device(c10::Device(mesh().device_type())), /*spare=*/votes);
}

const std::shared_ptr<Group>& FlatParameters::group() {
  if (!group_) {
    group_ = Communicator::of(mesh()).group(mesh(), {mesh_dim_});
  }
  return group_;
}

at::Tensor FlatParameters::rows_in_front(size_t number, const at::Tensor& tensor) const {
  return slots_[number].dim == 0 ? tensor : tensor.movedim(slots_[number].dim, 0);
}

at::Tensor FlatParameters::rows_in_place(size_t number, const at::Tensor& tensor) const {
  return slots_[number].dim == 0 ? tensor : tensor.movedim(0, slots_[number].dim);
}

Run FlatParameters::rows(size_t number, int64_t member) const {
  const auto& slot = slots_[number];
  return row_elements(slot.shape) == 0 ? Run{0, 0} : Run{slot.bounds[member], row_count(number, member)};
}

int64_t FlatParameters::begin_in_range(size_t number, int64_t member) const {
  const auto& slot = slots_[number];
  return rows(number, member).length == 0
      ? 0
      : slot.begin + slot.bounds[member] * row_elements(slot.shape) - bounds_[member];
}

uint64_t FlatParameters::writes() {
  // Not the sum of the leaves' counters: those of a leaf that was replaced, or of `.data`, may be smaller than those before.
  for (size_t k = 0; k < leaves_.size(); ++k) {
    auto memory = as_dtensor(leaves_[k])->memory();
    const auto count = memory->writes();
    Seen now{.memory = std::move(memory), .writes = count, .version = version_of(leaves_[k])};
    if (now != seen_[k]) {
      seen_[k] = std::move(now);
      ++writes_;
    }
  }
  return writes_;
}

uint32_t FlatParameters::lengths_hash() const {
  uint64_t hash = static_cast<uint64_t>(leaves_[0].scalar_type()) + 1;
  const auto mix = [&](int64_t value) {
    hash = (hash ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  };
  for (const auto& slot : slots_) {
    mix(slot.dim);
    std::for_each(slot.shape.begin(), slot.shape.end(), mix);
    std::for_each(slot.bounds.begin(), slot.bounds.end(), mix);
  }
  return static_cast<uint32_t>(hash >> 40);
}

at::Tensor FlatParameters::shard_of(size_t number) const {
  const auto& given = *spec(number);
  const auto& own = *slots_[number].spec;
  TORCH_CHECK_VALUE(
      given.mesh() == own.mesh() && given.sizes() == own.sizes(),
      "[fully_shard] the parameters of a unit must keep their mesh and shape, but ", own, " was given data of ", given,
      ". Make the module anew and call fully_shard for it.");
  if (given.layout() == own.layout()) {
    return as_dtensor(leaves_[number])->local();
  }
  return as_dtensor(redistribute(leaves_[number].detach(), own.layout()))->local();
}

void FlatParameters::adopt() {
  const auto own = mesh().rank(mesh_dim_);
  // Leaves that are adopted there are trained outside, unless they are tensors of that mode.
  const auto is_inference = [](const at::Tensor& leaf) { return leaf.is_inference(); };
  const c10::InferenceMode mode(std::any_of(leaves_.begin(), leaves_.end(), is_inference));
  const at::AutoGradMode no_graph(false);
  // By what all ranks see, and not by the memory of local tensors, of which some may be empty: ranks gather anew together.
  bool is_adopted = shard_.defined();
  for (size_t k = 0; is_adopted && k < leaves_.size(); ++k) {
    is_adopted = as_dtensor(leaves_[k])->memory() == adopted_[k];
  }
  if (is_adopted) {
    return;
  }
  std::vector<at::Tensor> locals;
  for (size_t k = 0; k < leaves_.size(); ++k) {
    locals.push_back(shard_of(k));
  }
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto& first = locals[0];
  for (size_t k = 0; k < leaves_.size(); ++k) {
    const auto& local = locals[k];
    TORCH_CHECK_TYPE(
        local.scalar_type() == first.scalar_type() && local.device() == first.device() && !local.is_meta(),
        "[fully_shard] the parameters of a unit must keep their dtype and have values, but got ", *spec(k), " on ",
        local.device(), " among parameters of ", first.scalar_type(), " on ", first.device(),
        ". Convert the module before fully_shard, and call materialize before its first forward.");
  }
  ++writes_;
  if (!cast_to_ && first.scalar_type() != gathered_dtype()) {
    pending_.wait(); // of a gather into the buffer before
    make_buffer();
  }
  shard_ = at::zeros({range_length(own)}, first.options().pinned_memory(offload_ && offload_->pins_memory));
  for (size_t k = 0; k < leaves_.size(); ++k) {
    const auto& own_spec = *slots_[k].spec;
    const auto rows = shard_.narrow(0, begin_in_range(k, own), locals[k].numel());
    const auto view = rows_in_place(k, rows.view(rows_in_front(k, locals[k]).sizes()));
    view.copy_(locals[k]);
    const auto strides = row_strides(own_spec.sizes(), slots_[k].dim);
    leaves_[k].set_data(make_dtensor(
        view, TensorSpec::make(own_spec.mesh(), own_spec.layout(), own_spec.sizes(), strides, first.scalar_type())));
    adopted_[k] = as_dtensor(leaves_[k])->memory();
  }
}

void FlatParameters::start_gather(const std::shared_ptr<BufferPool>& pool) {
  adopt();
  const auto now = writes();
  if (gathered_->has_memory() && is_in_same_graph()) {
    if (gathered_writes_ == now) {
      return;
    }
    finish_gather(); // of older values
  } else if (gathered_->has_memory()) {
    // A graph gathers what is there when it runs, into memory of its own; and while it is captured nothing is gathered.
    release();
  }
  was_captured_ = is_captured(gathered_->tensor().device());
  const at::AutoGradMode no_graph(false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const OperatorScope scope("fully_shard");
  const SubjectScope subject_scope(subject_);
  gathered_->take(pool);
  gathered_writes_ = now;
  const SideStreamScope side(gathered_->tensor().device(), offload_.has_value());
  try {
    if (keeps_part() && kept_writes_ == now) {
      sent_ = kept_->tensor();
      pending_ = kept_group_->all_gather(sent_, gathered_->tensor(), 0, kept_lengths_);
    } else {
      sent_ = shard_to_send();
      copied_ = offload_ ? StreamPoint::now(sent_.device()) : StreamPoint();
      pending_ = group()->all_gather(sent_, gathered_->tensor(), 0, lengths_);
    }
    ready_ = StreamPoint::now(gathered_->tensor().device());
  } catch (...) {
    abandon_gather();
    throw;
  }
}

at::Tensor FlatParameters::shard_to_send() const {
  // Cast there: a copy between devices that casts waits for the CPU.
  const auto there = shard_.to(at::TensorOptions().device(gathered_->tensor().device()), /*non_blocking=*/true);
  return there.to(gathered_dtype());
}

/// Messages may still arrive in the memory of a gather that failed. Whatever waits for them keeps it.
void FlatParameters::abandon_gather() {
  pending_ = Pending();
  sent_.reset();
  gathered_writes_.reset();
  kept_.reset();
  make_buffer();
}

void FlatParameters::finish_gather() {
  try {
    if (is_in_same_graph()) {
      ready_.precede_current();
    }
    if (!pending_.done()) {
      pending_.wait();
      ready_ = StreamPoint::now(gathered_->tensor().device());
    }
    sent_.reset();
  } catch (...) {
    abandon_gather();
    throw;
  }
}

void FlatParameters::release() {
  finish_gather();
  copied_.synchronize(); // the host may write to the shards when a forward is over
  gathered_writes_.reset();
  gathered_->release();
  if (keeps_part()) {
    kept_->release();
  }
}

void FlatParameters::set_kept_ranks(int64_t ranks) {
  if (kept_ && static_cast<int64_t>(kept_lengths_.size()) == ranks &&
      kept_->tensor().scalar_type() == gathered_dtype()) {
    return;
  }
  const auto along = mesh().submesh({mesh().name(mesh_dim_)});
  const DeviceMesh neighbours(
      along.world(), along.device_type(), {along.size() / ranks, ranks}, along.ranks().vec(), {"outer", "inner"});
  kept_group_ = Communicator::of(neighbours).group(neighbours, {1});
  kept_lengths_.clear();
  const auto length = (bounds_.back() + ranks - 1) / ranks;
  for (int64_t part = 0; part < ranks; ++part) {
    kept_lengths_.push_back(std::max<int64_t>(std::min(length, bounds_.back() - part * length), 0));
  }
  kept_.emplace(kept_lengths_[kept_group_->rank()], gathered_->tensor().options());
}

void FlatParameters::release_to(int64_t ranks, const std::shared_ptr<BufferPool>& pool) {
  finish_gather();
  if (!gathered_writes_) {
    return release();
  }
  copied_.synchronize();
  const at::AutoGradMode no_graph(false);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (!keeps_part() || kept_writes_ != gathered_writes_) {
    set_kept_ranks(ranks);
    const auto own = kept_group_->rank();
    kept_->take(pool);
    kept_->tensor().copy_(gathered_->tensor().narrow(0, own * kept_lengths_[0], kept_lengths_[own]));
    kept_writes_ = gathered_writes_;
  }
  gathered_writes_.reset();
  gathered_->release();
}

at::Tensor FlatParameters::gathered_local(size_t number) const {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return rows_in_place(number, gathered_->view(slots_[number].begin, slots_[number].shape));
}

} // namespace weft
