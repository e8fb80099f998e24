#include "weft/graph/deploy/thread_ranks.h"

#include "weft/comm/wait_scope.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace weft::graph {

namespace {

void check_meshes(const std::vector<std::shared_ptr<const Program>>& programs) {
  TORCH_CHECK_VALUE(!programs.empty(), "[ThreadRanks] a program per rank is required, but got none.");
  for (const auto& program : programs) {
    TORCH_CHECK_VALUE(
        !program->mesh || program->mesh->size() == static_cast<int64_t>(programs.size()), "[ThreadRanks] ",
        program->mesh->to_string(), " needs ", program->mesh->size(), " programs, one per rank, but got ",
        programs.size(), ".");
  }
}

std::string first_line_of(const std::exception_ptr& error) {
  std::string text;
  try {
    std::rethrow_exception(error);
  } catch (const c10::Error& torch_error) {
    text = torch_error.what_without_backtrace();
  } catch (const std::exception& other) {
    text = other.what();
  }
  return text.substr(0, text.find('\n'));
}

} // namespace

struct ThreadRanks::State {
  State(std::vector<std::shared_ptr<const Program>> programs_, RunOptions options);
  ~State();

  void be_rank(int64_t rank);
  void serve(int64_t rank, Executor& executor);
  /// Keeps the error that is being handled, if it is the first.
  void keep_error(int64_t rank);
  template <class Condition>
  void wait_until(Condition condition);
  Executor& of(int64_t rank) const;

  const std::vector<std::shared_ptr<const Program>> programs;
  std::vector<Executor*> executors; // owned by the threads of their ranks
  std::vector<Values> inputs;
  std::vector<Values> outputs;
  std::exception_ptr error;

  std::mutex mutex;
  std::condition_variable changed;
  size_t runs = 0;      // the number of runs that were requested
  int64_t idle = 0;     // the number of ranks that wait for the next run
  bool is_over = false; // whether there will be no more runs
  bool has_ended = false;
  std::thread threads; // starts the ranks and joins them
};

ThreadRanks::State::State(std::vector<std::shared_ptr<const Program>> programs_, RunOptions options)
    : programs(std::move(programs_)), executors(programs.size()), outputs(programs.size()) {
  check_meshes(programs);
  const auto size = static_cast<int64_t>(programs.size());
  threads = std::thread([this, size, options] {
    try {
      run_on_ranks(size, [this](int64_t rank) { be_rank(rank); }, options);
    } catch (const std::exception&) {
      // The first error was kept already.
    }
    const std::lock_guard lock(mutex);
    has_ended = true;
    changed.notify_all();
  });
}

ThreadRanks::State::~State() {
  {
    const std::lock_guard lock(mutex);
    is_over = true;
    changed.notify_all();
  }
  const WaitScope wait_scope;
  threads.join();
}

void ThreadRanks::State::keep_error(int64_t rank) {
  const std::lock_guard lock(mutex);
  if (!error) {
    try {
      throw;
    } catch (c10::Error& torch_error) {
      torch_error.add_context(c10::str("on rank ", rank));
      error = std::current_exception();
    } catch (...) {
      error = std::current_exception();
    }
  }
  is_over = true;
  changed.notify_all();
}

void ThreadRanks::State::be_rank(int64_t rank) {
  try {
    Executor executor(programs[rank]);
    serve(rank, executor);
  } catch (...) {
    keep_error(rank);
    // A new error, because another thread reads the one that is kept.
    throw std::runtime_error(first_line_of(std::current_exception()));
  }
}

void ThreadRanks::State::serve(int64_t rank, Executor& executor) {
  std::unique_lock lock(mutex);
  executors[rank] = &executor;
  for (size_t done = 0;; ++done) {
    ++idle;
    changed.notify_all();
    changed.wait(lock, [&] { return is_over || runs > done; });
    if (is_over) {
      return;
    }
    auto given = std::move(inputs[rank]);
    lock.unlock();
    auto results = executor.run(std::move(given));
    lock.lock();
    outputs[rank] = std::move(results);
  }
}

template <class Condition>
void ThreadRanks::State::wait_until(Condition condition) {
  const WaitScope wait_scope;
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return has_ended || (condition() && !error); });
}

Executor& ThreadRanks::State::of(int64_t rank) const {
  if (error) {
    TORCH_CHECK(
        false, "[ThreadRanks] ranks that run are required, but they have failed: ", first_line_of(error),
        " Make them anew.");
  }
  return *executors.at(rank);
}

ThreadRanks::ThreadRanks(std::vector<std::shared_ptr<const Program>> programs, RunOptions options)
    : state_(std::make_unique<State>(std::move(programs), options)) {
  state_->wait_until([&] { return state_->idle == size(); });
  if (state_->error) {
    std::rethrow_exception(state_->error);
  }
}

ThreadRanks::~ThreadRanks() = default;

int64_t ThreadRanks::size() const {
  return static_cast<int64_t>(state_->programs.size());
}

std::vector<ThreadRanks::Values> ThreadRanks::run(std::vector<Values> inputs) {
  TORCH_CHECK_VALUE(
      static_cast<int64_t>(inputs.size()) == size(), "[ThreadRanks] the inputs of ", size(),
      " ranks are required, but got those of ", inputs.size(), ".");
  for (int64_t rank = 0; rank < size(); ++rank) {
    state_->of(rank).check_inputs(inputs[rank]);
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->inputs = std::move(inputs);
    state_->idle = 0;
    ++state_->runs;
    state_->changed.notify_all();
  }
  state_->wait_until([&] { return state_->idle == size(); });
  if (state_->error) {
    std::rethrow_exception(state_->error);
  }
  return std::exchange(state_->outputs, std::vector<Values>(size()));
}

std::vector<ThreadRanks::Values> ThreadRanks::run_alike(const Values& inputs) {
  executor(0).check_inputs(inputs);
  std::vector<Values> by_rank(size(), inputs);
  for (int64_t rank = 1; rank < size(); ++rank) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].isTensor() && inputs[i].toTensor().defined() && executor(rank).changes_input(i)) {
        by_rank[rank][i] = inputs[i].toTensor().clone();
      }
    }
  }
  return run(std::move(by_rank));
}

void ThreadRanks::manual_seed(uint64_t seed) {
  for (int64_t rank = 0; rank < size(); ++rank) {
    state_->of(rank).manual_seed(seed);
  }
}

const Executor& ThreadRanks::executor(int64_t rank) const {
  return state_->of(rank);
}

} // namespace weft::graph
