#pragma once

#include "weft/fully_sharded/flat_parameters.h"
#include "weft/fully_sharded/gradient_reduction.h"
#include "weft/fully_sharded/schedule.h"
#include "weft/fully_sharded/unit_memory.h"
#include "weft/fully_sharded/unit_options.h"

#include <functional>
#include <set>

namespace weft {

/// The parameters of a module that are gathered together before its forward, and again before its backward, and whose gradients are
/// reduced together when the module's backward is done.
///
///   unit->enter(/*is_global=*/true);      // the module has gathered parameters now
///   output = forward(input);
///   unit->leave({output});                // and its shards again
///
/// In the global view, where the batch is distributed, gathered parameters are distributed tensors, replicated over the mesh dim,
/// and the gradient is that of the global batch. With plain data, which differ by rank, they are plain tensors (or distributed on
/// the other mesh dims) and gradients are averaged over the ranks.
///
/// One autograd node per forward has the gathered parameters as its results. Autograd runs it after all nodes of that forward, since it
/// runs younger nodes first; then all gradients of the unit have arrived.
class Unit : public std::enable_shared_from_this<Unit> {
 public:
  /// Puts parameters, gathered ones or the shards, into the module, in the order of the leaves.
  using Swap = std::function<void(c10::ArrayRef<at::Tensor> parameters)>;
  using ReducedHook = std::function<void(const at::Tensor& reduced)>;

  /// `leaves` come from shard_parameters() and require gradients as the parameters did.
  Unit(std::vector<at::Tensor> leaves, UnitOptions options, Swap swap);
  virtual ~Unit() = default;

  /// Units that share a schedule start each other's gathers. Must be called before the first forward.
  void join(std::shared_ptr<Schedule> schedule) {
    schedule_ = std::move(schedule);
  }
  /// A unit inside of this one reshards after forward, unless that was set.
  void add_inner(Unit& unit);
  bool contains(const Unit& unit) const {
    return inner_.contains(&unit);
  }

  const std::vector<at::Tensor>& leaves() const {
    return leaves_;
  }
  /// Takes a tensor that someone has put into the module in place of a leaf: another one with its layout.
  void replace_leaf(size_t number, const at::Tensor& leaf);
  const UnitOptions& options() const {
    return options_;
  }
  /// Whether a tensor is in the global view: distributed over the mesh dim.
  bool is_global(const at::Tensor& tensor) const;

  /// nullopt: as the last forward was.
  void enter(std::optional<bool> is_global);
  /// `outputs` are the tensors that the forward gives, as many as are known. Where none of them has a gradient, or one of them is
  /// a gathered parameter, the gathered parameters stay until backward, unless the forward has failed.
  void leave(c10::ArrayRef<at::Tensor> outputs, bool has_failed = false);
  /// The number of forwards that have been entered and not left.
  size_t depth() const {
    return forwards_.size();
  }
  /// Leaves the forwards beyond the first `depth` ones, whose end was skipped as KeyboardInterrupt does.
  void unwind(size_t depth);
  /// The module is gone: what it had gathered is freed.
  void let_go();

  void start_gather();
  void gather();
  /// Whether there is memory with gathered parameters, or for those that are on their way.
  bool is_gathered() const;
  /// Whether the module has gathered parameters now, and not its shards.
  bool shows_gathered() const {
    return !forwards_.empty() || backward_ || unsharded_;
  }
  /// Frees the gathered parameters, unless a forward or backward uses them.
  void reshard() {
    free_after_use(/*keeps_part=*/false);
  }
  /// Gathers the parameters and puts them into the module until reshard() is called.
  void unshard(std::optional<bool> is_global);

  void set_reshard_after_forward(bool value);
  /// Implies set_reshard_after_forward(true), see UnitOptions::reshard_to.
  void set_reshard_to(int64_t ranks);
  void set_reshard_after_backward(bool value) {
    reshards_after_backward_ = value;
  }
  /// Without synchronisation backward adds up the gradients of the gathered parameters; the next pass with it reduces the sum.
  void set_requires_gradient_sync(bool value) {
    reduces_gradients_ = value;
  }
  /// Without it gradients are reduced over the shards alone, and their sums are added up until the next pass with it reduces them
  /// over the replicas, too.
  void set_requires_all_reduce(bool value) {
    reduces_replicas_ = value;
  }
  /// What the sum of the gradients of ranks with plain data is divided by, instead of the number of ranks.
  void set_gradient_divide_factor(double value) {
    divide_by_ = value;
  }
  /// Called with this rank's range of the reduced gradients, which it may write to, before they reach the leaves.
  void set_reduced_hook(ReducedHook hook);
  /// Frees gathered parameters and drops gradients that were not reduced, after a forward or backward that has failed.
  void reset();
  void set_forward_prefetch(Units units) {
    forward_prefetch_ = std::move(units);
  }
  void set_backward_prefetch(Units units) {
    backward_prefetch_ = std::move(units);
  }

 private:
  friend class Schedule;
  struct Use;
  class GatherNode;
  class BeginBackwardHook;
  using UsePtr = std::shared_ptr<Use>;

  struct Place {
    size_t group;
    size_t number;
  };

  /// Called when no node of the unit's forward is left to run.
  void end_backward();
  /// Whether a backward of the unit runs in autograd's pass of this thread.
  bool is_in_this_pass() const;
  /// Whether nodes of this unit's forward may be left to run when a node runs in which the backward of another unit begins.
  bool may_go_on(const Unit& beginning, uint64_t node) const;
  /// Frees the gathered parameters unless something may still read them.
  void free_unused(bool keeps_part = false);
  /// Forgets the gradients that were not reduced, or not over the replicas.
  void drop_gradients();
  UsePtr make_use(bool is_global);
  /// Makes backward begin with a gather. Whether one of the outputs was computed in the forward.
  bool hook_outputs(const UsePtr& use, c10::ArrayRef<at::Tensor> outputs);
  void begin_backward(const UsePtr& use, uint64_t node);
  torch::autograd::variable_list reduce(const Use& use, torch::autograd::variable_list&& gradients);
  void collect(const Use& use, torch::autograd::variable_list& gradients);
  GradientReduction& reduction_of(size_t group, bool is_global);
  void start_reduction(size_t group, const Use& use, torch::autograd::variable_list& results);
  void finish(GradientReduction& reduction) const;
  /// The gradient of a leaf that a reduction has given, with what was not reduced over the replicas, if it may reach the leaf in this
  /// pass.
  at::Tensor take_gradient(const GradientReduction* reduction, size_t number);
  /// Reduces what passes before have left, if this one reduces and has not used the unit.
  void reduce_sums();
  /// Adds a gradient to that of a leaf, as autograd does with one that arrives.
  void accumulate(const at::Tensor& leaf, at::Tensor gradient) const;
  void show_parameters();
  /// Ends unshard(), and frees gathered memory as free_gathered() does, unless a forward or backward uses it.
  void free_after_use(bool keeps_part);
  /// Frees gathered memory; where the unit reshards to some ranks, and `keeps_part`, each keeps a part of it.
  void free_gathered(bool keeps_part);
  void check_as_in_forward(const Use& use) const;
  uint64_t writes() const;

  std::vector<at::Tensor> leaves_;
  UnitOptions options_;
  Swap swap_;
  std::shared_ptr<Schedule> schedule_;
  std::shared_ptr<UnitMemory> memory_;
  std::vector<std::unique_ptr<FlatParameters>> groups_;
  std::vector<std::shared_ptr<GradientReduction>> collecting_; // per group, while gradients are added up
  std::vector<Place> places_;                                  // of the leaves
  std::set<const Unit*> inner_;
  std::vector<UsePtr> forwards_; // that run now, the innermost last
  UsePtr backward_;              // whose backward runs now
  int64_t backward_task_ = -1;   // of autograd, in which it runs
  UsePtr unsharded_;             // by unshard()
  bool reshards_after_backward_ = true;
  std::set<uint64_t> kept_uses_; // whose gathered memory stays until their gradients arrive, by their numbers
  uint64_t kept_writes_ = 0;     // to the shards, when these began
  uint64_t uses_ = 0;            // so many have begun
  bool is_held_ = false;         // gathered memory, which results without a graph read, until the next forward
  bool is_resharding_set_ = false;
  bool reduces_gradients_ = true;
  bool reduces_replicas_ = true;
  std::optional<double> divide_by_;
  ReducedHook reduced_hook_;
  std::vector<at::Tensor> unreduced_; // gradients of the leaves that were not reduced over the replicas
  std::optional<Units> forward_prefetch_;
  std::optional<Units> backward_prefetch_;
};

} // namespace weft
