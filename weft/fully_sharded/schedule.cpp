#include "weft/fully_sharded/schedule.h"

#include "weft/fully_sharded/first_error.h"
#include "weft/fully_sharded/unit.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>

#include <algorithm>

namespace weft {

namespace {

/// Runs a step for every unit that is still there, whatever it throws for some of them.
template <class Step>
void for_each_unit(const std::vector<std::weak_ptr<Unit>>& units, FirstError& errors, const Step& step) {
  for (const auto& each : units) {
    if (const auto unit = each.lock()) {
      errors.run([&] { step(*unit); });
    }
  }
}

Units values_of(const std::unordered_map<const Unit*, std::weak_ptr<Unit>>& map) {
  Units units;
  for (const auto& [_, unit] : map) {
    units.push_back(unit);
  }
  return units;
}

} // namespace

/// Ends the backward pass of a schedule, also if the pass fails: the callback at its end owns this.
class Schedule::Pass {
 public:
  explicit Pass(std::shared_ptr<Schedule> schedule) : schedule_(std::move(schedule)) {}
  ~Pass() {
    FirstError dropped; // the pass has failed, or its end has, and that error is raised
    if (schedule_) {
      dropped.run([&] { schedule_->end_backward(/*has_failed=*/true); });
    }
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  void end() {
    schedule_->end_backward(/*has_failed=*/false);
    schedule_ = nullptr;
  }

 private:
  std::shared_ptr<Schedule> schedule_;
};

void Schedule::begin_pass_before(Unit& unit) {
  if (const auto running = running_.lock(); running && running->depth() > 0) {
    return;
  }
  running_ = unit.weak_from_this();
  if (outermost_.emplace(&unit, running_).second) {
    return;
  }
  forward_.begin_pass();
  outermost_ = {{&unit, running_}};
  expects_backward_ = false;
  repeats_forward_ = true;
  // Ranks that have written to a shard one by one would not agree on whether these are to be gathered anew.
  FirstError errors;
  for_each_unit(std::exchange(awaiting_backward_, {}), errors, [](Unit& each) { each.free_unused(); });
  errors.rethrow();
}

void Schedule::add(Unit& unit) {
  if (auto& known = known_[&unit]; known.expired()) {
    known = unit.weak_from_this();
    std::erase_if(units_, [](const auto& each) { return each.expired(); });
    units_.push_back(known);
  }
}

void Schedule::begin_forward(Unit& unit) {
  prefetched_.erase(&unit);
  begin_pass_before(unit);
  unit.gather();
  const auto learned = forward_.next(unit);
  for (const auto& each : unit.forward_prefetch_.value_or(Units{learned})) {
    if (const auto next = each.lock()) {
      if (!next->is_gathered()) {
        prefetched_[next.get()] = next;
      }
      next->start_gather();
    }
  }
  if (expects_backward_ && !unit.forward_prefetch_ && forward_.is_last(unit) && at::GradMode::is_enabled()) {
    prefetch_for_backward(unit);
  }
}

void Schedule::prefetch_for_backward(const Unit& last) {
  for (const auto& each : backward_.last()) {
    const auto next = each.lock();
    if (next && next.get() != &last && !next->is_gathered()) {
      awaiting_backward_.push_back(each);
      next->start_gather();
      return;
    }
  }
}

bool Schedule::stays_for_backward(Unit& unit) {
  const auto& order = backward_.last();
  // What has not been resharded needs no gather before that of this unit.
  const auto first = std::find_if(order.begin(), order.end(), [](const auto& each) {
    const auto other = each.lock();
    return other && other->options().reshard_after_forward;
  });
  const bool stays = expects_backward_ && forward_.is_last(unit) && unit.options().reshard_to == 0 &&
      first != order.end() && first->lock().get() == &unit;
  if (stays) {
    awaiting_backward_.push_back(unit.weak_from_this());
  }
  return stays;
}

void Schedule::end_forward(Unit& unit) {
  Units unreached;
  std::erase_if(prefetched_, [&](const auto& entry) {
    const auto next = entry.second.lock();
    const bool is_inside = next && unit.contains(*next);
    if (is_inside) {
      unreached.push_back(next);
    }
    return is_inside || !next;
  });
  FirstError errors;
  for_each_unit(unreached, errors, [](Unit& each) { each.free_unused(/*keeps_part=*/true); });
  errors.rethrow();
}

void Schedule::recover() {
  FirstError dropped;
  for_each_unit(units_, dropped, [](Unit& unit) { unit.free_unused(); });
  for_each_unit(values_of(std::exchange(prefetched_, {})), dropped, [](Unit& unit) { unit.free_unused(); });
}

void Schedule::begin_backward_pass() {
  if (!pass_.expired()) {
    return;
  }
  const auto pass = std::make_shared<Pass>(shared_from_this());
  pass_ = pass;
  expects_backward_ = !std::exchange(repeats_forward_, false);
  backward_.begin_pass();
  forward_.begin_pass(); // the next forward is another one
  outermost_.clear();
  torch::autograd::Engine::get_default_engine().queue_callback([pass] { pass->end(); });
}

void Schedule::begin_recomputation(Unit& unit) {
  begin_backward_pass();
  recomputed_.push_back(unit.weak_from_this());
  unit.gather();
}

void Schedule::begin_backward(Unit& unit, uint64_t node) {
  begin_backward_pass();
  Units done;
  std::erase_if(in_backward_, [&](const auto& each) {
    const auto other = each.lock();
    const bool goes_on = other && other.get() != &unit && other->may_go_on(unit, node);
    if (other && other.get() != &unit && !goes_on) {
      done.push_back(other);
    }
    return !goes_on;
  });
  FirstError errors;
  for_each_unit(done, errors, [](Unit& other) { other.end_backward(); });
  errors.rethrow();
  in_backward_.push_back(unit.weak_from_this());
  unit.gather();
  const auto learned = backward_.next(unit);
  for (const auto& each : unit.backward_prefetch_.value_or(Units{learned})) {
    if (const auto next = each.lock()) {
      next->start_gather();
    }
  }
}

void Schedule::end_backward(bool has_failed) {
  FirstError errors;
  const auto end = [](Unit& unit) { unit.end_backward(); };
  for_each_unit(std::exchange(in_backward_, {}), errors, end);
  for_each_unit(std::exchange(recomputed_, {}), errors, end);
  for_each_unit(
      std::exchange(awaiting_backward_, {}), errors, end); // also those that are not in the order of this pass
  for_each_unit(backward_.last(), errors, end); // those whose gathers were started, and which the pass did not reach
  if (has_failed) {
    // A step that is tried again would add to the sums of this pass.
    for_each_unit(units_, errors, [](Unit& unit) { unit.drop_gradients(); });
    recover();
  }
  errors.rethrow();
  if (!has_failed) {
    for (const auto& each : Units(units_)) { // hooks of gradients may use others
      if (const auto unit = each.lock()) {
        unit->reduce_sums();
      }
    }
  }
}

} // namespace weft
