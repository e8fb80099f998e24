#pragma once

#include <barrier>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::testing {

/// How a call went on one rank.
struct RankOutcome {
  enum class Kind : uint8_t { Right, Wrong, Raised };
  Kind kind = Kind::Right;
  std::string text; // how it is wrong, or the error
};

/// What the ranks make of a call together.
struct Verdict {
  enum class Kind : uint8_t { Right, Wrong, Refused, Disagree };
  Kind kind = Kind::Right;
  std::string text;
};

/// Ranks disagree where some raise and others do not, or where they raise errors that are not the same but for numbers:
/// one of them has then waited in vain for another.
Verdict judge(const std::vector<RankOutcome>& ranks);

/// Where the ranks of a run, as threads, meet after every call, so that none is ahead when another fails.
class Meeting {
 public:
  /// `on_met` is called once per meeting, while all ranks wait; it says whether they go on.
  Meeting(int64_t size, std::function<bool(const std::vector<RankOutcome>&)> on_met)
      : outcomes_(size), on_met_(std::move(on_met)), barrier_(size, Completion{this}) {}

  /// Waits for all ranks; whether they go on.
  bool tell(int64_t rank, RankOutcome outcome) {
    outcomes_[rank] = std::move(outcome);
    barrier_.arrive_and_wait();
    return goes_on_;
  }

 private:
  struct Completion {
    Meeting* meeting;
    void operator()() noexcept {
      meeting->goes_on_ = meeting->on_met_(meeting->outcomes_);
    }
  };

  std::vector<RankOutcome> outcomes_;
  std::function<bool(const std::vector<RankOutcome>&)> on_met_;
  bool goes_on_ = true;
  std::barrier<Completion> barrier_;
};

} // namespace weft::testing
