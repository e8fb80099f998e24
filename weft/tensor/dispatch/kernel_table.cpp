#include "weft/tensor/dispatch/kernel_table.h"

#include "weft/rules/register_rule.h"

#include <mutex>
#include <unordered_map>

namespace weft {

namespace {

struct KernelTable {
  std::mutex mutex;
  std::unordered_multimap<std::string, const DTensorKernel*> kernels; // by full name
};

KernelTable& table() {
  static auto* kernels = new KernelTable();
  return *kernels;
}

/// Prepared calls are kept per thread; the kernel's new identity makes all threads prepare them anew.
void forget_calls_of(const c10::OperatorName& op) {
  const std::lock_guard lock(table().mutex);
  const auto [begin, end] = table().kernels.equal_range(c10::toString(op));
  for (auto kernel = begin; kernel != end; ++kernel) {
    kernel->second->forget_calls();
  }
}

} // namespace

const DTensorKernel& make_kernel(const c10::OperatorHandle& op) {
  static const bool observes = (on_rule_change(&forget_calls_of), true);
  static_cast<void>(observes);
  const auto* kernel = new DTensorKernel(op);
  const std::lock_guard lock(table().mutex);
  table().kernels.emplace(c10::toString(op.operator_name()), kernel);
  return *kernel;
}

void for_each_kernel(const std::function<void(const std::string& name, const DTensorKernel& kernel)>& visit) {
  const std::lock_guard lock(table().mutex);
  for (const auto& [name, kernel] : table().kernels) {
    visit(name, *kernel);
  }
}

} // namespace weft
