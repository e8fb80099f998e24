#pragma once

#include "weft/fully_sharded/flat_parameters.h"
#include "weft/tensor/gradients/gradient_buckets.h"

namespace weft {

/// The gradients of gathered parameters on their way to the shards: they are collected in one buffer, in which each member's rows
/// are consecutive, and one reduce_scatter reads from there. May collect the gradients of several passes before.
///
///   reduction.add(0, gradient); ...     // for every gradient that arrived
///   reduction.start();                  // overlaps with what follows
///   reduction.wait();  reduction.gradient(0);
class GradientReduction {
 public:
  /// `op` is Sum for terms of one gradient, Avg for gradients of members that compute by themselves. With `votes` members tell
  /// each other which gradients they have, and on which mesh dims these are partial: a gradient that arrived on some members counts
  /// as zero on the others. `replicate_dim` is the mesh dim over which the shards are replicated, if there is one: the votes of the
  /// replicas count, too.
  ///
  /// On a device with streams the host would have to wait for the votes. There a member reads them for a parameter of which it has no
  /// term itself, or of which the members have not agreed yet whether terms are partial.
  GradientReduction(
      FlatParameters& parameters,
      ReduceOp op,
      at::ScalarType dtype,
      bool votes,
      const std::shared_ptr<BufferPool>& pool,
      std::optional<int64_t> replicate_dim = std::nullopt);

  /// Adds this member's term of the gradient of a gathered parameter: a local tensor in the layout `before` along the mesh dims
  /// other than that of the shards.
  void add(size_t number, const at::Tensor& local, const Layout& before);
  /// Some member may add a term of this parameter.
  void expect(size_t number) {
    terms_[number].is_expected = true;
  }
  bool expects(size_t number) const {
    return terms_[number].is_expected;
  }
  /// Forgets the terms of a parameter that were added so far.
  void drop(size_t number) {
    terms_[number] = {};
  }
  /// The layout in which the terms of a parameter were given so far.
  const std::optional<Layout>& layout_before(size_t number) const {
    return terms_[number].before;
  }
  ReduceOp op() const {
    return op_;
  }

  void start();
  void wait();
  /// After wait(): starts to copy the reduced gradients to the CPU, if the shards are there.
  void offload();
  /// After wait(), once: this rank's range of the reduced gradients, which gradient() reads; undefined when called again.
  at::Tensor take_unseen();

  /// After wait(): the gradient of a shard, a distributed tensor of the dtype of its parameter; undefined if it had no term.
  at::Tensor gradient(size_t number) const;

 private:
  struct Term {
    std::optional<Layout> before; // if there is a term
    bool is_expected = false;
  };

  int64_t length_for(int64_t member) const;
  int64_t begin_for(int64_t member) const;
  int64_t members() const {
    return parameters_.group()->size();
  }
  int64_t votes_length() const {
    return votes_ ? static_cast<int64_t>(terms_.size() * votes_per_parameter()) : 0;
  }
  /// One for its term, and one for each of the other dims on which the term may be partial.
  size_t votes_per_parameter() const {
    return 1 + other_dims_.size();
  }
  /// The share of members that gave a vote.
  double share(size_t parameter, size_t vote) const;
  bool reads_votes(size_t number) const;
  Layout layout_of_gradient(size_t number) const;
  /// Zeros where no term was added, and the votes.
  void complete();
  void give_votes(const at::Tensor& votes) const;
  void count_votes();

  FlatParameters& parameters_;
  ReduceOp op_;
  bool votes_;
  std::optional<int64_t> replicate_dim_;
  std::vector<int64_t> other_dims_; // of the mesh, besides that of the shards and that of the replicas
  std::vector<Term> terms_;
  std::optional<PooledBuffer> buffer_;
  at::Tensor reduced_;
  at::Tensor given_votes_;
  mutable at::Tensor read_votes_; // given_votes_ on the CPU
  StreamPoint done_;
  at::Tensor offloaded_; // reduced_, on the CPU
  bool is_seen_ = false;
  Pending pending_;
};

} // namespace weft
