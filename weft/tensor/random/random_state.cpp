#include "weft/tensor/random/random_state.h"

#include "weft/comm/world/current_world.h"
#include "weft/tensor/random/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace weft {

namespace {

// A rank that is a thread has a state per thread, a rank that is a process one per process. Operators in backward find
// the right one: ranks as threads run backward on their own threads, and the engine's threads for CUDA devices, which
// are in no WorldScope, serve a rank that is a process.
thread_local RandomState state_of_thread;
RandomState state_of_process;
std::mutex process_mutex;

template <class Fn>
auto with_state(const Fn& fn) {
  if (in_world_scope()) {
    return fn(state_of_thread);
  }
  const std::lock_guard lock(process_mutex);
  return fn(state_of_process);
}

/// How far a call advances a generator on a device; the generator's offset must be a multiple of four.
constexpr uint64_t kGeneratorStep = 4;

/// Set in the call numbers of a generator, so that they differ from those of manual_seed with the same seed.
constexpr uint64_t kOfGenerator = uint64_t{1} << 63;

RandomCall draw_from(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  if (generator.device().is_cpu()) {
    return {at::check_generator<at::CPUGeneratorImpl>(generator)->random64(), kOfGenerator};
  }
  const auto offset = generator.get_offset();
  generator.set_offset(offset + kGeneratorStep);
  return {generator.current_seed(), kOfGenerator | offset};
}

} // namespace

void manual_seed(uint64_t seed) {
  set_random_state({seed, 0});
}

RandomState random_state() {
  return with_state([](const RandomState& state) { return state; });
}

void set_random_state(const RandomState& state) {
  with_state([&](RandomState& current) { current = state; });
}

RandomCall next_random_call(const std::optional<at::Generator>& generator) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !stream_generator(),
      "[InitializationScope] random numbers of distributed tensors are drawn by uniform_, normal_ and "
      "the other fills in place, but another operator asked for some. Make a tensor and fill it.");
  if (generator && generator->defined()) {
    return draw_from(*generator);
  }
  return with_state([](RandomState& state) { return RandomCall{state.seed, state.calls++}; });
}

} // namespace weft
