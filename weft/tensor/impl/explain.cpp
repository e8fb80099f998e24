#include "weft/tensor/impl/explain.h"

namespace weft {

std::string Explanation::to_string() const {
  auto text = op + "(";
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += (i == 0 ? "" : ", ") + inputs[i];
  }
  text += "): " + strategy;
  for (const auto& plan : plans) {
    text += "\n  " + plan;
  }
  text += plans.empty() ? "" : "\n  " + std::to_string(bytes) + " bytes";
  return text + "\n  " + why;
}

void ExplainedCalls::add(std::shared_ptr<const Explanation> call) {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
}

std::string ExplainLog::to_string() const {
  return weft::to_string(calls());
}

std::string to_string(const std::vector<std::shared_ptr<const Explanation>>& calls) {
  std::string text;
  for (const auto& call : calls) {
    text += call->to_string() + "\n";
  }
  return text;
}

namespace {

void tell_watch(const RedistributionWatch& watch, const Explanation& call, bool communicates) {
  if (!communicates && (!watch.counts_free_ones || call.plans.empty())) {
    return;
  }
  const auto message = c10::str(
      "[", call.op, "] Implicit redistribution occurred while ExplicitRedistributionContext was active:\n",
      call.to_string(), "\nRedistribute the inputs first, or leave the context.");
  TORCH_CHECK(watch.warn != nullptr, message);
  watch.warn(message);
}

} // namespace

void tell_scopes(const std::shared_ptr<const Explanation>& call, bool communicates) {
  const auto& scopes = Scopes::of_thread();
  if (scopes.explain != nullptr) {
    scopes.explain->add(call);
  }
  if (scopes.redistribution_watch != nullptr) {
    tell_watch(*scopes.redistribution_watch, *call, communicates);
  }
  TORCH_CHECK_VALUE(
      !scopes.strict || !communicates, "[", call->op, "] would communicate, which the strict scope forbids:\n",
      call->to_string(), "\nRedistribute the inputs first, or leave the scope.");
}

} // namespace weft
