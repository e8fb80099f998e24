#include "weft/fully_sharded/unit.h"

#include "weft/core/layout_algebra.h"
#include "weft/fully_sharded/gradient_terms.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/gradients/gradient_layout.h"
#include "weft/tensor/impl/autograd_node.h"
#include "weft/tensor/impl/in_backward.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>

namespace weft {

using torch::autograd::variable_list;

/// One forward of a unit.
struct Unit::Use {
  bool is_global = false;
  uint64_t writes = 0; // to the shards, when they were gathered
  std::vector<at::Tensor> gathered;
  std::vector<uint32_t> versions; // of the gathered parameters
  std::vector<size_t> trained;    // the leaves whose gradients the node is given
  uint64_t begin = 0;             // the nodes of this forward have sequence numbers from here on
};

/// From the shards of a unit's parameters to the gathered ones.
class Unit::GatherNode : public torch::autograd::Node {
 public:
  GatherNode(std::shared_ptr<Unit> unit, const Use& use)
      : unit_(std::move(unit)),
        use_{.is_global = use.is_global, .writes = use.writes, .gathered = {}, .versions = {}, .trained = use.trained} {
  }

  variable_list apply(variable_list&& gradients) override {
    return unit_->reduce(use_, std::move(gradients));
  }
  std::string name() const override {
    return "weft::fully_shard";
  }

 private:
  std::shared_ptr<Unit> unit_;
  Use use_; // without the gathered parameters, whose node this is
};

/// Runs before the backward of a unit's output.
class Unit::BeginBackwardHook : public torch::autograd::FunctionPreHook {
 public:
  BeginBackwardHook(std::shared_ptr<Unit> unit, UsePtr use) : unit_(std::move(unit)), use_(std::move(use)) {}

  variable_list operator()(const variable_list& gradients) override {
    unit_->begin_backward(use_);
    return gradients;
  }

 private:
  std::shared_ptr<Unit> unit_;
  UsePtr use_;
};

Unit::Unit(std::vector<at::Tensor> leaves, UnitOptions options, Swap swap)
    : leaves_(std::move(leaves)),
      options_(std::move(options)),
      swap_(std::move(swap)),
      schedule_(std::make_shared<Schedule>()),
      places_(leaves_.size()) {
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
        std::move(members), spec.mesh().dim(options_.mesh_dim), is_cast ? options_.gathered_dtype : std::nullopt));
  }
  collecting_.resize(groups_.size());
  unreduced_.resize(leaves_.size());
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
    count += group->writes();
  }
  return count;
}

void Unit::start_gather() {
  for (const auto& group : groups_) {
    group->start_gather(schedule_->pool());
  }
}

void Unit::gather() {
  start_gather();
  for (const auto& group : groups_) {
    group->finish_gather();
  }
}

bool Unit::is_gathered() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->is_gathered(); });
}

SpecPtr Unit::gathered_spec(const Place& place, bool is_global) const {
  const auto& group = *groups_[place.group];
  const auto& spec = *group.spec(place.number);
  const auto& mesh = spec.mesh();
  const auto layout = spec.layout().with(mesh.dim(options_.mesh_dim), Replicate());
  const auto dtype = group.gathered_dtype();
  if (is_global) {
    return TensorSpec::make(mesh, layout, spec.sizes(), dtype);
  }
  std::vector<std::string> names;
  Placements placements;
  c10::SmallVector<int64_t, kMaxMeshDims> positions;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    if (mesh.name(m) != options_.mesh_dim && mesh.name(m) != options_.replicate_dim) {
      names.push_back(mesh.name(m));
      placements.push_back(layout[m]);
      positions.push_back(layout.shard_position(m));
    }
  }
  return names.empty() ? nullptr
                       : TensorSpec::make(mesh.submesh(names), Layout(placements, positions), spec.sizes(), dtype);
}

at::Tensor Unit::gathered_parameter(const Place& place, bool is_global) const {
  auto local = groups_[place.group]->gathered_local(place.number);
  const auto spec = gathered_spec(place, is_global);
  if (spec == nullptr) {
    return local;
  }
  auto parameter = make_dtensor(local, spec);
  as_dtensor(parameter)->become_cast_parameter(); // operators leave it where it is
  return parameter;
}

Unit::UsePtr Unit::make_use(bool is_global) {
  auto use = std::make_shared<Use>();
  use->is_global = is_global;
  use->writes = writes();
  use->begin = at::sequence_number::peek();
  const bool records = at::GradMode::is_enabled();
  torch::autograd::edge_list edges;
  for (size_t k = 0; k < leaves_.size(); ++k) {
    use->gathered.push_back(gathered_parameter(places_[k], is_global));
    if (records && leaves_[k].requires_grad()) {
      use->trained.push_back(k);
      edges.push_back(torch::autograd::impl::gradient_edge(leaves_[k]));
    }
  }
  if (!use->trained.empty()) {
    const auto node = make_node<GatherNode, NodePtr>(shared_from_this(), *use);
    node->set_next_edges(std::move(edges));
    for (const auto k : use->trained) {
      torch::autograd::set_history(use->gathered[k], node);
    }
  }
  for (const auto& parameter : use->gathered) {
    use->versions.push_back(version_of(parameter));
  }
  return use;
}

void Unit::check_unwritten(const Use& use) const {
  for (size_t k = 0; k < use.gathered.size(); ++k) {
    TORCH_CHECK(
        version_of(use.gathered[k]) == use.versions[k],
        "[fully_shard] parameters that are not written to while they are gathered are required, but the one with the "
        "shard ",
        *as_dtensor(leaves_[k])->spec(),
        " was. The gathered copy is thrown away: write to the parameter between steps, or name it "
        "among ignored_params.");
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
  if (in_backward()) {
    gather(); // a checkpoint computes the forward anew
  } else {
    schedule_->begin_forward(*this);
  }
  schedule_->is_global = is_global.value_or(schedule_->is_global);
  forwards_.push_back(make_use(schedule_->is_global));
  show_parameters();
}

void Unit::replace_leaf(size_t number, const at::Tensor& leaf) {
  const auto& spec = *as_dtensor(leaves_[number])->spec();
  const auto fits = [&] {
    const auto& given = *as_dtensor(leaf)->spec();
    return given.mesh() == spec.mesh() && given.layout() == spec.layout() && given.sizes() == spec.sizes();
  };
  TORCH_CHECK_VALUE(
      is_dtensor(leaf) && leaf.is_leaf() && fits(),
      "[fully_shard] a module whose parameters are those that fully_shard has made is required, but one of layout ",
      spec, " was replaced by ", is_dtensor(leaf) ? as_dtensor(leaf)->spec()->to_string() : "a plain tensor",
      leaf.is_leaf() ? "" : " that has a history",
      ". Write to the parameter with copy_, or give a leaf with its layout; torch.func.functional_call is for modules "
      "that are not fully sharded.");
  leaves_[number] = leaf;
  const auto& place = places_[number];
  groups_[place.group]->replace(place.number, leaf);
  if (leaf.requires_grad() && as_dtensor(leaf)->claim_gradient_layout()) {
    keep_gradient_layout(leaf);
  }
}

bool Unit::is_of(const Use& use, const at::Tensor& tensor) {
  return tensor.defined() && tensor.grad_fn() && tensor.grad_fn()->sequence_nr() >= use.begin;
}

bool Unit::outlives_forward(const Use& use, c10::ArrayRef<at::Tensor> outputs) const {
  const auto storage_of = [](const at::Tensor& tensor) {
    const auto& local = is_dtensor(tensor) ? as_dtensor(tensor)->local() : tensor;
    return local.has_storage() ? local.storage().unsafeGetStorageImpl() : nullptr;
  };
  // A parameter, or a view of one.
  const auto is_parameter = [&](const at::Tensor& output) {
    return output.defined() && std::any_of(use.gathered.begin(), use.gathered.end(), [&](const auto& parameter) {
             return storage_of(parameter) != nullptr && storage_of(parameter) == storage_of(output);
           });
  };
  // Results that are not known, as those of a generator, have no hook that gathers the parameters for backward.
  const bool is_unknown = !use.trained.empty() &&
      std::none_of(outputs.begin(), outputs.end(), [&](const at::Tensor& output) { return is_of(use, output); });
  return is_unknown || std::any_of(outputs.begin(), outputs.end(), is_parameter);
}

void Unit::leave(c10::ArrayRef<at::Tensor> outputs, bool has_failed) {
  if (forwards_.empty()) {
    return; // enter() has failed
  }
  const auto use = std::move(forwards_.back());
  forwards_.pop_back();
  show_parameters();
  const auto hook = [&](const at::Tensor& tensor) {
    if (is_of(*use, tensor)) {
      tensor.grad_fn()->add_tensor_pre_hook(std::make_unique<BeginBackwardHook>(shared_from_this(), use));
    }
  };
  for (const auto& output : outputs) {
    hook(output);
    if (output.defined() && output.is_view()) {
      hook(at::Tensor(output._base())); // whose node alone runs where the output is written to
    }
  }
  if (!in_backward()) {
    check_unwritten(*use);
    is_kept_ = is_kept_ || (!has_failed && outlives_forward(*use, outputs));
    if (options_.reshard_after_forward && !is_kept_) {
      free_gathered(/*keeps_part=*/true);
    }
  }
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

void Unit::reshard() {
  free_gathered(/*keeps_part=*/false);
}

void Unit::free_gathered(bool keeps_part) {
  if (!forwards_.empty() || backward_) {
    return;
  }
  is_kept_ = false;
  const auto unsharded = std::exchange(unsharded_, nullptr);
  if (unsharded) {
    show_parameters();
  }
  for (const auto& group : groups_) {
    if (keeps_part && options_.reshard_to > 0 && group->is_gathered()) {
      group->release_to(options_.reshard_to, schedule_->pool());
    } else if (group->is_gathered() || group->keeps_part()) {
      group->release();
    }
  }
  if (unsharded) {
    check_unwritten(*unsharded);
  }
}

void Unit::unshard(std::optional<bool> is_global) {
  gather();
  unsharded_ = make_use(is_global.value_or(schedule_->is_global));
  show_parameters();
}

void Unit::check_as_in_forward(const Use& use) const {
  TORCH_CHECK(
      use.writes == writes(),
      "[fully_shard] parameters as they were in forward are required in backward, but one of a unit has been written "
      "to since (",
      *as_dtensor(leaves_[0])->spec(), "). Call backward before the optimizer's step.");
}

void Unit::begin_backward(const UsePtr& use) {
  if (backward_ == use) {
    return; // of another output
  }
  const bool creates_graph = at::GradMode::is_enabled();
  const at::AutoGradMode no_graph(false);
  check_as_in_forward(*use);
  schedule_->begin_backward(*this);
  is_kept_ = is_kept_ || creates_graph; // the graph of the gradients reads the gathered parameters, too
  backward_ = use;
  backward_task_ = torch::autograd::get_current_graph_task_id();
  show_parameters();
}

void Unit::end_backward() {
  if (backward_) {
    backward_ = nullptr;
    show_parameters();
  }
  if (reshards_after_backward_ && !unsharded_ && !is_kept_) {
    reshard();
  }
}

void Unit::add_gradient(const Place& place, const at::Tensor& gradient, bool is_global) {
  auto& reduction = collecting_[place.group];
  auto& group = *groups_[place.group];
  const auto op = is_global ? ReduceOp::Sum : ReduceOp::Avg;
  TORCH_CHECK_NOT_IMPLEMENTED(
      gradient.layout() == at::kStrided, "[fully_shard] dense gradients are required, but got one of layout ",
      gradient.layout(), ". Leave out sparse=True.");
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_global || !divide_by_,
      "[fully_shard] a divide factor is for batches of plain tensors, but got a distributed batch. Divide its loss "
      "instead.");
  TORCH_CHECK_VALUE(
      !reduction || reduction->op() == op,
      "[fully_shard] one kind of batch is required while gradients are added up without synchronisation, but got one ",
      is_global ? "that is distributed after plain ones" : "of plain tensors after distributed ones",
      ". Synchronise the gradients in between.");
  if (!reduction) {
    const bool votes = !is_global && !options_.replicate_dim;
    reduction = std::make_shared<GradientReduction>(
        group, op, options_.reduced_dtype.value_or(group.gathered_dtype()), votes, schedule_->pool());
  }
  const ShardDims dims{options_.mesh_dim, options_.replicate_dim};
  const auto& known = reduction->layout_before(place.number);
  const auto make_term = is_global ? term_in_global_view : term_of_own_data;
  const auto term = make_term(gradient, group.spec(place.number), dims, known);
  reduction->add(place.number, term.local, term.layout);
}

void Unit::set_reduced_hook(ReducedHook hook) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !options_.replicate_dim,
      "[fully_shard] a hook for reduced gradients needs a unit without replicas, but got one of ",
      *options_.replicate_dim, ". Leave replicate_dim out, and let the hook reduce over the replicas.");
  reduced_hook_ = std::move(hook);
}

void Unit::finish(GradientReduction& reduction) const {
  reduction.wait();
  if (auto reduced = reduction.take_unseen(); reduced_hook_ && reduced.defined()) {
    reduced_hook_(reduced);
  }
}

at::Tensor Unit::take_gradient(const GradientReduction& reduction, size_t number) {
  auto gradient = reduction.gradient(places_[number].number);
  const auto& mesh = as_dtensor(leaves_[number])->spec()->mesh();
  if (gradient.defined() && divide_by_) {
    const auto replicas = options_.replicate_dim ? mesh.size(mesh.dim(*options_.replicate_dim)) : 1;
    gradient = gradient * (static_cast<double>(replicas * mesh.size(mesh.dim(options_.mesh_dim))) / *divide_by_);
  }
  auto& before = unreduced_[number];
  if (before.defined()) {
    gradient = gradient.defined() ? gradient + before : before;
    before.reset();
  }
  if (options_.replicate_dim && !reduces_replicas_) {
    before = std::move(gradient);
    return {};
  }
  return gradient;
}

void Unit::reset() {
  forwards_.clear();
  backward_ = nullptr;
  std::fill(collecting_.begin(), collecting_.end(), nullptr);
  std::fill(unreduced_.begin(), unreduced_.end(), at::Tensor());
  show_parameters();
  reshard();
}

variable_list Unit::reduce(const Use& use, variable_list&& gradients) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !at::GradMode::is_enabled(),
      "[fully_shard] gradients of parameters cannot be differentiated again, but got create_graph=True. Name what is "
      "differentiated, as torch.autograd.grad(loss, inputs, create_graph=True) does.");
  check_as_in_forward(use);
  is_kept_ = false;
  const at::AutoGradMode no_graph(false);
  // A checkpoint inside of the unit runs a backward of its own; the unit's goes on after it.
  if (!backward_ || backward_task_ == torch::autograd::get_current_graph_task_id()) {
    end_backward();
  }
  schedule_->wait_for_reductions();
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) {
      add_gradient(places_[use.trained[i]], gradients[i], use.is_global);
      gradients[i].reset();
    }
  }
  variable_list results(use.trained.size());
  if (!reduces_gradients_) {
    return results;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto reduction = std::exchange(collecting_[g], nullptr);
    if (!reduction) {
      continue;
    }
    reduction->start();
    schedule_->add_reduction(reduction);
    std::vector<std::pair<size_t, GradAccumulator>> later;
    for (size_t i = 0; i < use.trained.size(); ++i) {
      const auto k = use.trained[i];
      if (places_[k].group != g) {
        continue;
      }
      if (auto accumulator = accumulator_for_later(leaves_[k])) {
        later.emplace_back(k, std::move(accumulator));
      } else {
        finish(*reduction);
        const auto gradient = take_gradient(*reduction, k);
        // Not left to the leaf's hook, which a hook of the user may have replaced.
        results[i] = gradient.defined() ? redistribute(gradient, as_dtensor(leaves_[k])->spec()->layout()) : gradient;
      }
    }
    if (!later.empty()) {
      at_end_of_pass([self = shared_from_this(), reduction, later = std::move(later)] {
        self->finish(*reduction);
        for (const auto& [k, accumulator] : later) {
          if (auto gradient = self->take_gradient(*reduction, k); gradient.defined()) {
            accumulate_later(self->leaves_[k], std::move(gradient), accumulator);
          }
        }
      });
    }
  }
  return results;
}

} // namespace weft
