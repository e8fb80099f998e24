#include "weft/fully_sharded/schedule.h"

#include "weft/fully_sharded/gradient_reduction.h"
#include "weft/fully_sharded/unit.h"

#include <torch/csrc/autograd/engine.h>

#include <algorithm>

namespace weft {

/// Ends the backward pass of a schedule, also if the pass fails: the callback at its end owns this.
class Schedule::Pass {
 public:
  explicit Pass(std::shared_ptr<Schedule> schedule) : schedule_(std::move(schedule)) {}
  ~Pass() {
    try {
      end();
    } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): the pass has failed, and its own error is raised
    }
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  void end() {
    if (auto schedule = std::exchange(schedule_, nullptr)) {
      schedule->end_backward();
    }
  }

 private:
  std::shared_ptr<Schedule> schedule_;
};

void Schedule::follow(Followers& followers, std::weak_ptr<Unit>& last, Unit& unit) {
  if (const auto before = last.lock(); before && before.get() != &unit) {
    followers[before.get()] = unit.weak_from_this();
  }
  last = unit.weak_from_this();
}

void Schedule::start_next(const Followers& followers, const std::optional<Units>& given, Unit& unit) {
  const auto found = followers.find(&unit);
  const auto learned = found == followers.end() ? Units() : Units{found->second};
  for (const auto& each : given.value_or(learned)) {
    if (const auto next = each.lock()) {
      next->start_gather();
    }
  }
}

void Schedule::begin_forward(Unit& unit) {
  unit.gather();
  follow(next_forward_, last_forward_, unit);
  start_next(next_forward_, unit.forward_prefetch(), unit);
}

void Schedule::begin_backward(Unit& unit) {
  auto pass = pass_.lock();
  if (!pass) {
    pass = std::make_shared<Pass>(shared_from_this());
    pass_ = pass;
    // The next forward is another pass.
    next_forward_.erase(last_forward_.lock().get());
    last_forward_.reset();
    torch::autograd::Engine::get_default_engine().queue_callback([pass] { pass->end(); });
  }
  // Autograd runs later nodes first, so that the backward of a unit whose forward came after this one's is done, unless one of them
  // is inside of the other: both may begin with the same node.
  std::erase_if(in_backward_, [&](const auto& each) {
    const auto other = each.lock();
    const bool goes_on = other && other.get() != &unit && (other->contains(unit) || unit.contains(*other));
    if (other && other.get() != &unit && !goes_on) {
      other->end_backward();
    }
    return !goes_on;
  });
  in_backward_.push_back(unit.weak_from_this());
  unit.gather();
  follow(next_backward_, last_backward_, unit);
  start_next(next_backward_, unit.backward_prefetch(), unit);
}

void Schedule::end_backward() {
  for (const auto& each : std::exchange(in_backward_, {})) {
    if (const auto unit = each.lock()) {
      unit->end_backward();
    }
  }
  // Gathers that were started for a unit that this pass did not reach.
  for (const auto& [_, each] : next_backward_) {
    if (const auto unit = each.lock()) {
      unit->end_backward();
    }
  }
  last_backward_.reset();
}

void Schedule::wait_for_reductions() {
  for (const auto& each : std::exchange(reductions_, {})) {
    if (const auto reduction = each.lock()) {
      reduction->wait();
    }
  }
}

} // namespace weft
