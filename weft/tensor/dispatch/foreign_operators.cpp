#include "weft/tensor/dispatch/foreign_operators.h"

#include "weft/propagation/is_random.h"
#include "weft/rules/register_rule.h"
#include "weft/tensor/dispatch/kernel_table.h"
#include "weft/tensor/impl/collectives_of_torch.h"
#include "weft/tensor/random/random_fallback.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include <array>
#include <mutex>
#include <unordered_set>

namespace weft {

namespace {

using torch::jit::Stack;

std::string_view library_of(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  return name.substr(0, name.find("::"));
}

/// Libraries whose operators mean this rank's local tensor: a replicated run would be wrong.
bool is_of_collectives(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 7> kLibraries = {
      "_c10d_functional", "c10d_functional", "_c10d_functional_autograd", "symm_mem", "_dtensor", "fsdp", "weft"};
  return std::find(kLibraries.begin(), kLibraries.end(), library_of(op)) != kLibraries.end();
}

/// Libraries of torch whose kernels for all keys call ATen's operators, which have rules.
bool is_of_torch(const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 8> kLibraries = {"aten",     "c10d",           "prim",       "prims",
                                                          "rngprims", "inductor_prims", "debugprims", "export"};
  return std::find(kLibraries.begin(), kLibraries.end(), library_of(op)) != kLibraries.end();
}

void check_draws_nothing(const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !is_random(op) || inner_dropout_argument(op), "[", op.schema().name(),
      "] draws random numbers (nondeterministic_seeded), which would differ between ranks. Give its schema an argument "
      "'Generator? generator', or call it on local tensors (weft.local).");
}

/// Counts definitions that were taken back: an operator of the same name may now have another schema.
std::atomic<uint64_t> removals = 0;

/// The kernel of an operator that may be defined anew, as by a cell of a notebook that runs twice.
class ForeignKernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    kernel_of(op).call(keys, stack);
  }

  const DTensorKernel& kernel_of(const c10::OperatorHandle& op) {
    if (C10_UNLIKELY(kernel_ == nullptr || removals_ != removals)) {
      const std::lock_guard lock(mutex_);
      auto text = c10::toString(op.schema());
      if (kernel_ == nullptr || text != schema_) {
        check_draws_nothing(op);
        kernel_ = &make_kernel(op);
        schema_ = std::move(text);
      }
      removals_ = removals.load();
    }
    return *kernel_;
  }

 private:
  std::atomic<const DTensorKernel*> kernel_ = nullptr;
  std::atomic<uint64_t> removals_ = 0;
  std::mutex mutex_;
  std::string schema_;
};

/// Operators that were defined and have not been looked at.
class Definitions final : public c10::OpRegistrationListener {
 public:
  /// Called with the dispatcher's lock held, under which no kernel can be registered.
  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    if (!is_of_torch(op)) {
      const std::lock_guard lock(mutex_);
      names_.push_back(op.operator_name());
      has_new_ = true;
    }
  }
  void onOperatorDeregistered(const c10::OperatorHandle& /*op*/) override {
    ++removals;
  }

  bool has_new() const {
    return has_new_;
  }
  std::vector<c10::OperatorName> take() {
    const std::lock_guard lock(mutex_);
    has_new_ = false;
    return std::exchange(names_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<c10::OperatorName> names_;
  std::atomic<bool> has_new_ = false;
};

Definitions* definitions = nullptr;

/// Kept for the life of the process, as ATen's own kernels are.
torch::Library& library_for(const std::string& name) {
  static auto* all = new std::unordered_map<std::string, std::unique_ptr<torch::Library>>();
  auto& library = (*all)[name];
  if (library == nullptr) {
    library = std::make_unique<torch::Library>(torch::Library::IMPL, name, kDTensorKey, __FILE__, __LINE__);
  }
  return *library;
}

torch::CppFunction kernel_for(const c10::OperatorHandle& op) {
  if (is_of_collectives(op)) {
    return torch::CppFunction::makeFromBoxedFunction<&refuse_collective>();
  }
  auto seeded = seeded_kernel(op);
  return seeded ? std::move(*seeded) : torch::CppFunction::makeFromBoxedFunctor(std::make_unique<ForeignKernel>());
}

/// Registers a kernel of the operator's own. Called by one thread at a time.
void adopt(const c10::OperatorHandle& op) {
  const auto name = c10::toString(op.operator_name());
  static auto* adopted = new std::unordered_set<std::string>();
  if (op.hasKernelForDispatchKey(kDTensorKey) || !adopted->insert(name).second) {
    return;
  }
  library_for(std::string(library_of(op))).impl(name.c_str(), kernel_for(op));
}

std::mutex& adoption_mutex() {
  static auto* mutex = new std::mutex();
  return *mutex;
}

/// The kernel of operators that have none: gives the operator a kernel of its own and calls it.
void call_foreign(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  {
    const std::lock_guard lock(adoption_mutex());
    adopt(op);
  }
  op.redispatchBoxed(keys, stack);
}

/// Kept for the life of the process. Compilers would leave out a variable that nothing reads, and leave the handle as a leak.
[[gnu::used]] c10::RegistrationHandleRAII* listening = nullptr;

} // namespace

void register_foreign_operators() {
  static auto* kernels = new torch::Library(torch::Library::IMPL, "_", kDTensorKey, __FILE__, __LINE__);
  static auto* autograd =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::AutogradPrivateUse2, __FILE__, __LINE__);
  kernels->fallback(torch::CppFunction::makeFromBoxedFunction<&call_foreign>());
  autograd->fallback(torch::autograd::basicAutogradNotImplementedFallback());
  auto listener = std::make_unique<Definitions>();
  definitions = listener.get();
  listening =
      new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().addRegistrationListener(std::move(listener)));
  on_rule_change([](const c10::OperatorName& /*op*/) { adopt_new_operators(); });
  adopt_new_operators();
}

void adopt_new_operators() {
  if (C10_LIKELY(!definitions->has_new())) {
    return;
  }
  const std::lock_guard lock(adoption_mutex());
  for (const auto& name : definitions->take()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)) {
      adopt(*op);
    }
  }
}

} // namespace weft
