#pragma once

#include "weft/tensor/impl/prepared_call.h"
#include "weft/tensor/impl/scopes.h"

#include <mutex>
#include <vector>

namespace weft {

/// The calls that an ExplainLog has recorded. Several threads may add to it, because autograd runs backward on other
/// threads.
class ExplainedCalls {
 public:
  void add(std::shared_ptr<const Explanation> call);
  const std::vector<std::shared_ptr<const Explanation>>& calls() const {
    return calls_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Explanation>> calls_;
};

/// Records how this thread's operators are run, in backward too, as long as the log exists.
///
///   ExplainLog log;
///   auto y = at::linear(x, w);
///   std::cout << log.to_string();
///   // aten::linear(f32[4,8] @ mesh(tp=2) {S(0)}, f32[6,8] @ mesh(tp=2) {S(0)}): {R} {S(0)} -> {S(1)}
///   //   0: all_gather(tp: S(0) -> R)
///   //   64 bytes
///   //   by the rule ([a,b],[c,b])->([a,c]) ...; parameters stay where they are
class ExplainLog {
 public:
  ExplainLog() : calls_(std::make_shared<ExplainedCalls>()), scope_(calls_) {}

  const std::vector<std::shared_ptr<const Explanation>>& calls() const {
    return calls_->calls();
  }
  std::string to_string() const;

 private:
  std::shared_ptr<ExplainedCalls> calls_;
  ScopeOf<&Scopes::explain> scope_;
};

/// The explanations, each on lines of its own.
std::string to_string(const std::vector<std::shared_ptr<const Explanation>>& calls);

/// Records a call for this thread's log, if there is one, and tells the RedistributionWatch. Raises in a StrictScope where
/// the call communicates.
void tell_scopes(const std::shared_ptr<const Explanation>& call, bool communicates);

} // namespace weft
