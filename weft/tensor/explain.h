#pragma once

#include "weft/tensor/prepared_call.h"

#include <vector>

namespace weft {

/// Records how this thread's operators are run while it lasts.
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
  ExplainLog();
  ~ExplainLog();
  ExplainLog(const ExplainLog&) = delete;
  ExplainLog& operator=(const ExplainLog&) = delete;

  const std::vector<std::shared_ptr<const Explanation>>& calls() const {
    return calls_;
  }
  void add(std::shared_ptr<const Explanation> call) {
    calls_.push_back(std::move(call));
  }
  std::string to_string() const;

 private:
  ExplainLog* outer_;
  std::vector<std::shared_ptr<const Explanation>> calls_;
};

/// The explanations, each on lines of its own.
std::string to_string(const std::vector<std::shared_ptr<const Explanation>>& calls);

/// Records a call for this thread's log, if there is one. Raises in a StrictScope where the call communicates.
void tell_scopes(const std::shared_ptr<const Explanation>& call, bool communicates);

} // namespace weft
