#include "weft/fully_sharded/unit.h"

#include "weft/comm/communicator.h"
#include "weft/fully_sharded/first_error.h"
#include "weft/fully_sharded/mesh_on.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/fully_sharded/unit_use.h"
#include "weft/tensor/gradients/gradient_layout.h"
#include "weft/tensor/impl/in_backward.h"

namespace weft {

namespace {

/// The number of a new unit among those whose calls its group makes; 0 where there is nothing to communicate with.
uint32_t number_unit(const DeviceMesh& mesh, const std::string& mesh_dim) {
  auto* const communicator = dynamic_cast<Communicator*>(mesh.world().get());
  return communicator == nullptr ? 0 : communicator->number_subject(mesh, {mesh.dim(mesh_dim)});
}

} // namespace

Unit::Unit(std::vector<at::Tensor> leaves, UnitOptions options, Swap swap)
    : leaves_(std::move(leaves)),
      options_(std::move(options)),
      swap_(std::move(swap)),
      schedule_(std::make_shared<Schedule>()),
      places_(leaves_.size()) {
  const auto mesh_of_leaf = [&](size_t k) {
    const auto& mesh = as_dtensor(leaves_[k])->spec()->mesh();
    return options_.offload ? mesh_on(mesh, options_.offload->device) : mesh;
  };
  const auto number = leaves_.empty() ? 0 : number_unit(mesh_of_leaf(0), options_.mesh_dim);
  for (const auto& group : flat_groups(leaves_)) {
    std::vector<at::Tensor> members;
    for (const auto k : group) {
      places_[k] = {groups_.size(), members.size()};
      members.push_back(leaves_[k]);
      if (leaves_[k].requires_grad() && as_dtensor(leaves_[k])->claim_gradient_layout()) {
        keep_gradient_layout(leaves_[k]);
      }
    }
    const auto& spec = *as_dtensor(members[0])->spec();
    const bool is_cast = c10::isFloatingType(spec.dtype());
    groups_.push_back(std::make_unique<FlatParameters>(
        std::move(members), spec.mesh().dim(options_.mesh_dim), is_cast ? options_.gathered_dtype : std::nullopt,
        number, options_.offload));
    memory_ = memory_ ? memory_ : UnitMemory::of(groups_.back()->mesh());
  }
  collecting_.resize(groups_.size());
  unreduced_.resize(leaves_.size());
}

void Unit::add_inner(Unit& unit) {
  inner_.insert(&unit);
  unit.options_.reshard_after_forward = unit.options_.reshard_after_forward || !unit.is_resharding_set_;
}

void Unit::set_reshard_after_forward(bool value) {
  options_.reshard_after_forward = value;
  options_.reshard_to = 0;
  is_resharding_set_ = true;
}

bool Unit::is_global(const at::Tensor& tensor) const {
  if (!is_dtensor(tensor)) {
    return false;
  }
  const auto& names = as_dtensor(tensor)->spec()->mesh().names();
  return std::find(names.begin(), names.end(), options_.mesh_dim) != names.end();
}

uint64_t Unit::writes() const {
  uint64_t count = 0;
  for (const auto& group : groups_) {
    count += group->writes(); // none of them falls, so that neither does the sum
  }
  return count;
}

void Unit::start_gather() {
  for (const auto& group : groups_) {
    group->start_gather(memory_->pool());
  }
}

void Unit::gather() {
  try {
    start_gather();
    for (const auto& group : groups_) {
      group->finish_gather();
    }
  } catch (...) {
    FirstError dropped; // they follow from the one that is raised
    dropped.run([&] { free_gathered(/*keeps_part=*/false); });
    throw;
  }
}

bool Unit::is_gathered() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->is_gathered(); });
}

void Unit::free_gathered(bool keeps_part) {
  kept_uses_.clear();
  is_held_ = false;
  FirstError errors;
  for (const auto& group : groups_) {
    if (keeps_part && options_.reshard_to > 0 && group->is_gathered()) {
      errors.run([&] { group->release_to(options_.reshard_to, memory_->pool()); });
    } else if (group->is_gathered() || group->keeps_part()) {
      errors.run([&] { group->release(); });
    }
  }
  errors.rethrow();
}

void Unit::free_unused(bool keeps_part) {
  if (forwards_.empty() && !backward_ && !unsharded_ && kept_uses_.empty() && !is_held_) {
    free_gathered(keeps_part);
  }
}

void Unit::show_parameters() {
  swap_(
      !forwards_.empty() ? forwards_.back()->gathered
          : backward_    ? backward_->gathered
          : unsharded_   ? unsharded_->gathered
                         : leaves_);
}

void Unit::enter(std::optional<bool> is_global) {
  const auto depth = forwards_.size();
  schedule_->add(*this);
  try {
    if (in_backward()) {
      schedule_->begin_recomputation(*this);
    } else {
      schedule_->begin_forward(*this);
    }
    schedule_->is_global = is_global.value_or(schedule_->is_global);
    forwards_.push_back(make_use(schedule_->is_global));
    show_parameters();
  } catch (...) {
    unwind(depth);
    schedule_->recover();
    throw;
  }
}

void Unit::replace_leaf(size_t number, const at::Tensor& leaf) {
  const auto& spec = *as_dtensor(leaves_[number])->spec();
  const auto fits = [&] {
    const auto& given = *as_dtensor(leaf)->spec();
    return given.mesh() == spec.mesh() && given.sizes() == spec.sizes(); // the next gather redistributes it
  };
  TORCH_CHECK_VALUE(
      is_dtensor(leaf) && leaf.is_leaf() && fits(),
      "[fully_shard] a module whose parameters are those that fully_shard has made is required, but one of layout ",
      spec, " was replaced by ", is_dtensor(leaf) ? as_dtensor(leaf)->spec()->to_string() : "a plain tensor",
      leaf.is_leaf() ? "" : " that has a history",
      ". Write to the parameter with copy_, or give a leaf on its mesh; torch.func.functional_call is for modules "
      "that are not fully sharded.");
  leaves_[number] = leaf;
  const auto& place = places_[number];
  groups_[place.group]->replace(place.number, leaf);
  // The new leaf has no gradient yet: sums that were not reduced were the old one's.
  unreduced_[number].reset();
  if (const auto& reduction = collecting_[place.group]) {
    reduction->drop(place.number);
  }
  if (leaf.requires_grad() && as_dtensor(leaf)->claim_gradient_layout()) {
    keep_gradient_layout(leaf);
  }
}

void Unit::leave(c10::ArrayRef<at::Tensor> outputs, bool has_failed) {
  if (forwards_.empty()) {
    return; // enter() has failed
  }
  const auto use = std::move(forwards_.back());
  forwards_.pop_back();
  FirstError errors;
  errors.run([&] { show_parameters(); });
  const bool begins_backward = hook_outputs(use, outputs);
  if (!in_backward()) {
    errors.run([&] { use->check_unwritten(leaves_); });
    // Results that are not known, as those of a generator, have no hook that gathers the parameters for backward.
    const bool is_unknown = !use->trained.empty() && !begins_backward;
    const auto is_parameter = [&](const at::Tensor& output) { return use->shares_memory(output); };
    const bool stays = !has_failed && (is_unknown || std::any_of(outputs.begin(), outputs.end(), is_parameter));
    if (stays && !use->trained.empty()) {
      kept_uses_.insert(use->number);
    }
    is_held_ = stays && use->trained.empty();
    // Without a backward nothing would free them, and ranks that write to a shard one by one would not agree on the next gather.
    const bool stays_for_backward = begins_backward && !has_failed && schedule_->stays_for_backward(*this);
    const bool reshards = options_.reshard_after_forward && !stays_for_backward;
    if ((reshards || !begins_backward) && kept_uses_.empty() && !is_held_) {
      errors.run([&] { free_after_use(/*keeps_part=*/begins_backward); });
    }
    errors.run([&] { schedule_->end_forward(*this); });
  }
  if (has_failed) {
    // In backward a checkpoint ends what it computes anew by an exception, when it has all that it needs. Where the pass fails, its end
    // recovers.
    if (!in_backward()) {
      schedule_->recover();
    }
    return; // the forward's own error is raised
  }
  errors.rethrow();
}

void Unit::unwind(size_t depth) {
  if (forwards_.size() > depth) {
    forwards_.resize(depth);
    FirstError dropped; // another error is under way
    dropped.run([&] { show_parameters(); });
    schedule_->recover();
  }
}

void Unit::let_go() {
  forwards_.clear();
  FirstError dropped;
  dropped.run([&] { reshard(); });
}

void Unit::set_reshard_to(int64_t ranks) {
  for (const auto& group : groups_) {
    const auto size = group->mesh().size(group->mesh().dim(options_.mesh_dim));
    TORCH_CHECK_VALUE(
        ranks > 1 && size % ranks == 0, "[fully_shard] a number of ranks that divides the size of mesh dim ",
        options_.mesh_dim, ", ", size, ", is required for reshard_after_forward, but got ", ranks, ".");
  }
  set_reshard_after_forward(true);
  options_.reshard_to = ranks;
}

void Unit::free_after_use(bool keeps_part) {
  if (!forwards_.empty() || backward_) {
    return;
  }
  FirstError errors;
  const auto unsharded = std::exchange(unsharded_, nullptr);
  if (unsharded) {
    errors.run([&] { show_parameters(); });
  }
  errors.run([&] { free_gathered(keeps_part); });
  if (unsharded) {
    errors.run([&] { unsharded->check_unwritten(leaves_); });
  }
  errors.rethrow();
}

void Unit::unshard(std::optional<bool> is_global) {
  schedule_->add(*this);
  gather();
  unsharded_ = make_use(is_global.value_or(schedule_->is_global));
  show_parameters();
}

void Unit::end_backward() {
  FirstError errors;
  if (std::exchange(backward_, nullptr)) {
    errors.run([&] { show_parameters(); });
  }
  if (reshards_after_backward_) {
    errors.run([&] { free_unused(); });
  }
  errors.rethrow();
}

void Unit::set_reduced_hook(ReducedHook hook) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !options_.replicate_dim,
      "[fully_shard] a hook for reduced gradients needs a unit without replicas, but got one of ",
      *options_.replicate_dim, ". Leave replicate_dim out, and let the hook reduce over the replicas.");
  reduced_hook_ = std::move(hook);
}

void Unit::reset() {
  forwards_.clear();
  backward_ = nullptr;
  drop_gradients();
  show_parameters();
  reshard();
}

void Unit::drop_gradients() {
  std::fill(collecting_.begin(), collecting_.end(), nullptr);
  std::fill(unreduced_.begin(), unreduced_.end(), at::Tensor());
}

} // namespace weft
