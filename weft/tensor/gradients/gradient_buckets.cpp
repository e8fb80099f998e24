#include "weft/tensor/gradients/gradient_buckets.h"

#include "weft/comm/communicator.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/impl/call_agreement.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/move_observer.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <optional>
#include <unordered_map>

namespace weft {

namespace {

std::atomic<int64_t> bucket_bytes = int64_t{4} << 20;

/// The last step of a gradient's redistribution: over which mesh dims it is reduced, and its layout before.
struct Reduction {
  MeshDims mesh_dims;
  ReduceOp op = ReduceOp::Sum;
  Layout before;
};

/// The reduction that redistributes a gradient to `layout`; nullopt if the last step is not one sum or average over
/// ranks.
std::optional<Reduction> reduction_to(const TensorSpec& gradient, const Layout& layout) {
  Reduction reduction;
  reduction.before = layout;
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    const auto& placement = gradient.layout()[m];
    if (!placement.is_partial() || !layout[m].is_replicate() || gradient.mesh().size(m) == 1) {
      continue;
    }
    const auto op = placement.reduce_op();
    const bool is_linear = op == ReduceOp::Sum || op == ReduceOp::Avg;
    if (!is_linear || (!reduction.mesh_dims.empty() && op != reduction.op)) {
      return std::nullopt;
    }
    reduction.op = op;
    reduction.mesh_dims.push_back(m);
    reduction.before = reduction.before.with(m, placement);
  }
  return reduction.mesh_dims.empty() ? std::nullopt : std::optional(std::move(reduction));
}

/// The bytes of the largest local tensor: the same number on every rank, so that all ranks fill buckets alike.
int64_t most_local_bytes(const TensorSpec& spec) {
  const auto shape = largest_local_shape(spec.sizes(), spec.layout(), spec.mesh().shape());
  return c10::multiply_integers(shape) * static_cast<int64_t>(c10::elementSize(spec.dtype()));
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// The properties that all gradients of a bucket share. They are packed on the stream that computed them.
struct BucketKey {
  DeviceMesh mesh;
  MeshDims mesh_dims;
  ReduceOp op;
  at::ScalarType dtype;
  c10::Stream stream;

  friend bool operator==(const BucketKey&, const BucketKey&) = default;
};

class Bucket {
 public:
  explicit Bucket(BucketKey key) : key_(std::move(key)) {}

  const BucketKey& key() const {
    return key_;
  }
  int64_t bytes() const {
    return bytes_;
  }

  void add(const at::Tensor& gradient, const Layout& layout, GradAccumulator accumulator) {
    const auto& spec = as_dtensor(gradient)->spec();
    bytes_ += most_local_bytes(*spec);
    const auto target = TensorSpec::make(spec->mesh(), layout, spec->sizes(), spec->dtype());
    members_.push_back({gradient, target, std::move(accumulator)});
  }

  /// Starts the all_reduce of the bucket's gradients. No gradient can be added afterwards.
  void start() {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const OperatorScope scope("gradient");
    if (debug_enabled()) {
      check_agreement(key_.mesh, to_string());
    }
    const auto packed = members_.size() == 1 ? local_of(members_[0]).contiguous() : packed_locals();
    reduced_ = at::empty(packed.sizes(), packed.options());
    pending_ = Communicator::of(key_.mesh).group(key_.mesh, key_.mesh_dims)->all_reduce(packed, reduced_, key_.op);
    for (auto& member : members_) {
      member.gradient = at::Tensor();
    }
  }

  /// Waits for the sums and accumulates them.
  void finish() {
    pending_.wait();
    int64_t begin = 0;
    for (auto& [_, target, accumulator] : members_) {
      auto gradient = gradient_at(begin, target);
      begin += as_dtensor(gradient)->local().numel();
      torch::autograd::variable_list gradients;
      // The only reference, so that the node need not copy it.
      gradients.push_back(is_of_plain(*accumulator) ? as_dtensor(gradient)->local() : std::move(gradient));
      gradient.reset();
      (*accumulator)(std::move(gradients));
    }
  }

 private:
  struct Member {
    at::Tensor gradient;
    SpecPtr target;
    GradAccumulator accumulator;
  };

  static bool is_of_plain(const torch::autograd::Node& accumulator) {
    return !is_dtensor(dynamic_cast<const torch::autograd::AccumulateGrad&>(accumulator).variable);
  }

  static const at::Tensor& local_of(const Member& member) {
    return as_dtensor(member.gradient)->local();
  }

  at::Tensor packed_locals() const {
    int64_t count = 0;
    for (const auto& member : members_) {
      count += local_of(member).numel();
    }
    const auto packed = at::empty({count}, local_of(members_[0]).options());
    int64_t begin = 0;
    for (const auto& member : members_) {
      const auto& local = local_of(member);
      packed.narrow(0, begin, local.numel()).view(local.sizes()).copy_(local);
      begin += local.numel();
    }
    return packed;
  }

  at::Tensor gradient_at(int64_t begin, const SpecPtr& target) const {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const auto shape = target->local_shape_and_offset().shape;
    const auto count = c10::multiply_integers(shape);
    const bool is_all = members_.size() == 1;
    return make_dtensor(is_all ? reduced_ : reduced_.narrow(0, begin, count).view(shape), target);
  }

  std::string to_string() const {
    auto text = "gradient: all_reduce(" + key_.mesh.dims_text(key_.mesh_dims) + ") to";
    for (const auto& member : members_) {
      text += " " + member.target->to_string();
    }
    return text;
  }

  BucketKey key_;
  std::vector<Member> members_;
  int64_t bytes_ = 0;
  at::Tensor reduced_;
  Pending pending_;
};

/// The buckets of one backward pass, and other reductions that it finishes. The callback at the end of the pass owns them, so that they are destroyed with the
/// pass also if it fails before. Passes that run inside of others (reentrant ones) have buckets of their own.
class BackwardPass {
 public:
  explicit BackwardPass(int64_t id) : id_(id) {}
  ~BackwardPass() {
    const std::lock_guard lock(passes_mutex());
    passes().erase(id_);
  }
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  /// The pass of the graph task that this thread works on: autograd may run a task on several threads, and a thread may
  /// run many tasks.
  static std::shared_ptr<BackwardPass> current() {
    const auto id = torch::autograd::get_current_graph_task_id();
    const std::lock_guard lock(passes_mutex());
    auto& known = passes()[id];
    auto pass = known.lock();
    if (!pass) {
      pass = std::make_shared<BackwardPass>(id);
      known = pass;
      torch::autograd::Engine::get_default_engine().queue_callback([pass] { pass->finish(); });
    }
    return pass;
  }

  void add(BucketKey key, const at::Tensor& gradient, const Layout& layout, GradAccumulator accumulator) {
    const std::lock_guard lock(mutex_);
    auto bucket = std::find_if(open_.begin(), open_.end(), [&](const auto& b) { return b.key() == key; });
    if (bucket == open_.end()) {
      bucket = open_.emplace(open_.end(), std::move(key));
    }
    bucket->add(gradient, layout, std::move(accumulator));
    if (bucket->bytes() >= gradient_bucket_bytes()) {
      bucket->start();
      started_.push_back(std::move(*bucket));
      open_.erase(bucket);
    }
  }

  void add_later(std::function<void()> finish) {
    const std::lock_guard lock(mutex_);
    later_.push_back(std::move(finish));
  }

 private:
  // Never destroyed: autograd's threads may outlive static objects.
  static std::mutex& passes_mutex() {
    static auto* mutex = new std::mutex();
    return *mutex;
  }
  static std::unordered_map<int64_t, std::weak_ptr<BackwardPass>>& passes() {
    static auto* passes = new std::unordered_map<int64_t, std::weak_ptr<BackwardPass>>();
    return *passes;
  }

  void finish() {
    const at::AutoGradMode no_graph(false);
    auto later = std::exchange(later_, {});
    for (auto& each : later) {
      std::exchange(
          each, nullptr)(); // with what it holds: a reduction's memory goes before the next gradients are made
    }
    for (auto& bucket : open_) {
      bucket.start();
      started_.push_back(std::move(bucket));
    }
    open_.clear();
    for (auto& bucket : started_) {
      bucket.finish();
    }
    started_.clear();
  }

  int64_t id_;
  std::mutex mutex_;
  std::vector<Bucket> open_; // in the order of their first gradients
  std::vector<Bucket> started_;
  std::vector<std::function<void()>> later_;
};

} // namespace

bool reduce_in_bucket(const at::Tensor& gradient, const Layout& layout, GradAccumulator accumulator) {
  const auto& spec = *as_dtensor(gradient)->spec();
  if (gradient_bucket_bytes() == 0 || MoveObserver::of_thread() != nullptr ||
      is_recorded_by_operators(as_dtensor(gradient)->local()) || !spec.mesh().is_member() || gradient.is_meta()) {
    return false;
  }
  auto reduction = reduction_to(spec, layout);
  if (!reduction) {
    return false;
  }
  const auto terms = spec.layout() == reduction->before ? gradient : redistribute(gradient, reduction->before);
  BucketKey key{
      spec.mesh(), std::move(reduction->mesh_dims), reduction->op, spec.dtype(), current_stream(gradient.device())};
  BackwardPass::current()->add(std::move(key), terms, layout, std::move(accumulator));
  return true;
}

void at_end_of_pass(std::function<void()> finish) {
  BackwardPass::current()->add_later(std::move(finish));
}

int64_t gradient_bucket_bytes() {
  return bucket_bytes;
}

void set_gradient_bucket_bytes(int64_t bytes) {
  TORCH_CHECK_VALUE(
      bytes >= 0, "[set_gradient_bucket_bytes] a number of bytes is required, or 0 for no buckets, but got ", bytes,
      ".");
  bucket_bytes = bytes;
}

} // namespace weft
