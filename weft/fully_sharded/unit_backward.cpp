#include "weft/comm/communicator.h"
#include "weft/fully_sharded/gathered_parameter.h"
#include "weft/fully_sharded/gradient_terms.h"
#include "weft/fully_sharded/leaf_hooks.h"
#include "weft/fully_sharded/unit_use.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/gradients/gradient_layout.h"
#include "weft/tensor/impl/autograd_node.h"

#include <ATen/SequenceNumber.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>

namespace weft {

using torch::autograd::variable_list;

/// From the shards of a unit's parameters to the gathered ones.
class Unit::GatherNode : public torch::autograd::Node {
 public:
  GatherNode(std::shared_ptr<Unit> unit, const Use& use)
      : unit_(std::move(unit)),
        use_{
            .is_global = use.is_global,
            .number = use.number,
            .writes = use.writes,
            .gathered = {},
            .versions = {},
            .trained = use.trained} {}

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
  BeginBackwardHook(std::shared_ptr<Unit> unit, UsePtr use, uint64_t node)
      : unit_(std::move(unit)), use_(std::move(use)), node_(node) {}

  variable_list operator()(const variable_list& gradients) override {
    unit_->begin_backward(use_, node_);
    return gradients;
  }

 private:
  std::shared_ptr<Unit> unit_;
  UsePtr use_;
  uint64_t node_; // the sequence number of the output's node
};

Unit::UsePtr Unit::make_use(bool is_global) {
  auto use = std::make_shared<Use>();
  use->is_global = is_global;
  use->number = ++uses_;
  use->writes = writes();
  if (std::exchange(kept_writes_, use->writes) != use->writes) {
    kept_uses_.clear(); // their backward would raise
  }
  use->begin = at::sequence_number::peek();
  const bool records = at::GradMode::is_enabled();
  const auto dims = options_.dims();
  torch::autograd::edge_list edges;
  for (size_t k = 0; k < leaves_.size(); ++k) {
    use->gathered.push_back(gathered_parameter(*groups_[places_[k].group], places_[k].number, dims, is_global));
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

bool Unit::hook_outputs(const UsePtr& use, c10::ArrayRef<at::Tensor> outputs) {
  bool has_computed = false;
  const auto hook = [&](const at::Tensor& tensor) {
    if (!use->has_computed(tensor)) {
      return;
    }
    has_computed = true;
    // The node of a gathered parameter that is a result needs no memory, and a hook that holds the parameter whose node it is would
    // never be freed.
    if (dynamic_cast<GatherNode*>(tensor.grad_fn().get()) == nullptr) {
      const auto& node = tensor.grad_fn();
      node->add_tensor_pre_hook(std::make_unique<BeginBackwardHook>(shared_from_this(), use, node->sequence_nr()));
    }
  };
  for (const auto& output : outputs) {
    hook(output);
    if (output.defined() && output.requires_grad() && output.is_view()) {
      hook(at::Tensor(output._base())); // whose node alone runs where the output is written to
    }
  }
  return has_computed;
}

void Unit::check_as_in_forward(const Use& use) const {
  TORCH_CHECK(
      use.writes == writes(),
      "[fully_shard] parameters as they were in forward are required in backward, but one of a unit has been written "
      "to since (",
      *as_dtensor(leaves_[0])->spec(), "). Call backward before the optimizer's step.");
}

bool Unit::is_in_this_pass() const {
  return backward_ && backward_task_ == torch::autograd::get_current_graph_task_id();
}

bool Unit::may_go_on(const Unit& beginning, uint64_t node) const {
  if (is_in_this_pass()) {
    return backward_->may_go_on(
        node); // where one of them was inside of the other, or several modules of one unit around the other
  }
  // A checkpoint runs a pass of its own, of new nodes.
  return contains(beginning) || beginning.contains(*this);
}

void Unit::begin_backward(const UsePtr& use, uint64_t node) {
  while (backward_ && backward_->around && node < backward_->begin) {
    backward_ = std::exchange(backward_->around, nullptr); // a module that has called itself
    show_parameters();
  }
  if (backward_ == use || (backward_ && backward_->is_inside(use))) {
    return; // of another output
  }
  const bool creates_graph = at::GradMode::is_enabled();
  const at::AutoGradMode no_graph(false);
  check_as_in_forward(*use);
  schedule_->begin_backward(*this, node);
  if (creates_graph) {
    kept_uses_.insert(use->number); // the graph of the gradients reads the gathered parameters, too
  }
  use->around = is_in_this_pass() && backward_->may_go_on(node) ? backward_ : nullptr;
  backward_ = use;
  backward_task_ = torch::autograd::get_current_graph_task_id();
  show_parameters();
}

GradientReduction& Unit::reduction_of(size_t number, bool is_global) {
  auto& reduction = collecting_[number];
  if (!reduction) {
    auto& group = *groups_[number];
    const auto replicas =
        options_.replicate_dim ? std::optional(group.mesh().dim(*options_.replicate_dim)) : std::nullopt;
    reduction = std::make_shared<GradientReduction>(
        group, is_global ? ReduceOp::Sum : ReduceOp::Avg, options_.reduced_dtype.value_or(group.gathered_dtype()),
        /*votes=*/!is_global, memory_->pool(), replicas);
  }
  return *reduction;
}

void Unit::collect(const Use& use, variable_list& gradients) {
  const auto op = use.is_global ? ReduceOp::Sum : ReduceOp::Avg;
  const auto make_term = use.is_global ? term_in_global_view : term_of_own_data;
  // All terms are made before the first one is added: what may fail, fails before.
  std::vector<GradientTerm> terms(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    const auto& gradient = gradients[i];
    if (!gradient.defined()) {
      continue;
    }
    const auto& place = places_[use.trained[i]];
    auto& reduction = collecting_[place.group];
    auto& group = *groups_[place.group];
    TORCH_CHECK_NOT_IMPLEMENTED(
        gradient.layout() == at::kStrided, "[fully_shard] dense gradients are required, but got one of layout ",
        gradient.layout(), ". Leave out sparse=True.");
    TORCH_CHECK_NOT_IMPLEMENTED(
        !use.is_global || !divide_by_,
        "[fully_shard] a divide factor is for batches of plain tensors, but got a distributed batch. Divide its loss "
        "instead.");
    TORCH_CHECK_VALUE(
        !reduction || reduction->op() == op,
        "[fully_shard] one kind of batch is required while gradients are added up without synchronisation, but got "
        "one ",
        use.is_global ? "that is distributed after plain ones" : "of plain tensors after distributed ones",
        ". Synchronise the gradients in between.");
    auto known = reduction ? reduction->layout_before(place.number) : std::nullopt;
    if (!known && !use.is_global) {
      known = group.term_layout(place.number);
    }
    terms[i] = make_term(gradient, group.spec_on_mesh(place.number), options_.dims(), known);
    gradients[i].reset();
  }
  for (size_t i = 0; i < terms.size(); ++i) {
    const bool has_term = terms[i].local.defined();
    if (!has_term && use.is_global) {
      continue;
    }
    // Of plain data also without a term: another rank may have one, and all make the call.
    const auto& place = places_[use.trained[i]];
    auto& reduction = reduction_of(place.group, use.is_global);
    reduction.expect(place.number);
    if (has_term) {
      reduction.add(place.number, terms[i].local, terms[i].layout);
      terms[i].local.reset();
    }
  }
}

void Unit::finish(GradientReduction& reduction) const {
  reduction.wait();
  if (auto reduced = reduction.take_unseen(); reduced_hook_ && reduced.defined()) {
    reduced_hook_(reduced);
  }
  reduction.offload();
}

at::Tensor Unit::take_gradient(const GradientReduction* reduction, size_t number) {
  auto gradient = reduction == nullptr ? at::Tensor() : reduction->gradient(places_[number].number);
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

void Unit::start_reduction(size_t g, const Use& use, variable_list& results) {
  const auto reduction = std::exchange(collecting_[g], nullptr);
  if (!reduction) {
    return;
  }
  reduction->start();
  memory_->add_reduction(reduction, [unit = weak_from_this()](GradientReduction& each) {
    if (const auto self = unit.lock()) {
      self->finish(each);
    }
  });
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
      const auto gradient = take_gradient(reduction.get(), k);
      // Not left to the leaf's hook, which a hook of the user may have replaced.
      results[i] = gradient.defined() ? redistribute(gradient, as_dtensor(leaves_[k])->spec()->layout()) : gradient;
    }
  }
  for (size_t k = 0; k < leaves_.size(); ++k) {
    const auto& place = places_[k];
    const bool is_trained = std::binary_search(use.trained.begin(), use.trained.end(), k);
    if (place.group == g && !is_trained && reduction->expects(place.number)) {
      finish(*reduction); // frozen since a pass that was not reduced
      if (auto gradient = take_gradient(reduction.get(), k); gradient.defined()) {
        unreduced_[k] = std::move(gradient); // the end of the pass accumulates it
      }
    }
  }
  if (!later.empty()) {
    at_end_of_pass([self = shared_from_this(), reduction, later = std::move(later)] {
      self->finish(*reduction);
      for (const auto& [k, accumulator] : later) {
        if (auto gradient = self->take_gradient(reduction.get(), k); gradient.defined()) {
          accumulate_later(self->leaves_[k], std::move(gradient), accumulator);
        }
      }
    });
  }
}

void Unit::reduce_sums() {
  if (!reduces_gradients_) {
    return;
  }
  const at::AutoGradMode no_graph(false);
  std::vector<std::shared_ptr<GradientReduction>> reductions(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (auto reduction = std::exchange(collecting_[g], nullptr)) {
      memory_->wait_for_reductions();
      reduction->start();
      finish(*reduction);
      reductions[g] = std::move(reduction);
    }
  }
  for (size_t k = 0; k < leaves_.size(); ++k) {
    auto gradient = take_gradient(reductions[places_[k].group].get(), k);
    if (!gradient.defined()) {
      continue;
    }
    accumulate(leaves_[k], std::move(gradient));
  }
}

void Unit::accumulate(const at::Tensor& leaf, at::Tensor gradient) const {
  // Buckets may have been reduced already.
  gradient = redistribute(gradient, as_dtensor(leaf)->spec()->layout());
  if (!leaf.requires_grad()) {
    // Frozen since the pass that has given the gradient, which on one device would have been accumulated then.
    auto& before = leaf.mutable_grad();
    before = before.defined() ? before + gradient : gradient;
    return;
  }
  const auto accumulator = torch::autograd::impl::grad_accumulator(leaf);
  variable_list gradients;
  gradients.push_back(std::move(gradient));
  for (const auto& hook : torch::autograd::impl::hooks(leaf)) {
    gradients = (*hook)(gradients);
  }
  (*accumulator)(std::move(gradients));
}

variable_list Unit::reduce(const Use& use, variable_list&& gradients) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !at::GradMode::is_enabled(),
      "[fully_shard] gradients of parameters cannot be differentiated again, but got create_graph=True. Name what is "
      "differentiated, as torch.autograd.grad(loss, inputs, create_graph=True) does.");
  check_as_in_forward(use);
  kept_uses_.erase(use.number);
  const at::AutoGradMode no_graph(false);
  // A checkpoint inside of the unit runs a backward of its own; the unit's goes on after it.
  if (is_in_this_pass() && backward_->number == use.number && backward_->around) {
    backward_ = std::exchange(backward_->around, nullptr);
    show_parameters();
  } else if (!backward_ || is_in_this_pass()) {
    end_backward();
  }
  memory_->wait_for_reductions();
  variable_list results(use.trained.size());
  try {
    collect(use, gradients);
    for (size_t g = 0; reduces_gradients_ && g < groups_.size(); ++g) {
      start_reduction(g, use, results);
    }
  } catch (...) {
    drop_gradients(); // a step that is tried again would add to them
    throw;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) {
      skip_hooks_without_gradient(leaves_[use.trained[i]]);
    }
  }
  return results;
}

} // namespace weft
