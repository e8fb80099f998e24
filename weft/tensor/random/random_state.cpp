#include "weft/tensor/random/random_state.h"

#include "weft/comm/world/current_world.h"
#include "weft/comm/world/fake_world.h"
#include "weft/tensor/impl/call_agreement.h"
#include "weft/tensor/random/random_stream.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <unordered_map>

namespace weft {

namespace {

// A rank that is a thread has a state per thread, a rank that is a process one per process. Operators in backward find
// the right one: ranks as threads run backward on their own threads, and the engine's threads for CUDA devices, which
// are in no WorldScope, serve a rank that is a process.
struct RankState {
  RandomState random;
  bool compares_seeds = false; // the last seed came by manual_seed_to_compare
  std::unordered_map<size_t, uint64_t> compared_seeds =
      {}; // since then, by the mesh's hash: a mesh would keep its world
};
thread_local RankState state_of_thread;
RankState state_of_process;
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

/// Whether the ranks of the mesh exchange data, unlike those of a world for planning or of a fake one.
bool is_real(const DeviceMesh& mesh) {
  return dynamic_cast<const Communicator*>(mesh.world().get()) != nullptr && !is_fake(*mesh.world());
}

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
  with_state([&](RankState& state) { state = {.random = {seed, 0}}; });
}

void manual_seed_to_compare(uint64_t seed) {
  with_state([&](RankState& state) { state = {.random = {seed, 0}, .compares_seeds = true}; });
}

RandomState random_state() {
  return with_state([](const RankState& state) { return state.random; });
}

void set_random_state(const RandomState& state) {
  with_state([&](RankState& current) { current.random = state; });
}

RandomCall next_random_call(const std::optional<at::Generator>& generator) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !stream_generator(),
      "[InitializationScope] random numbers of distributed tensors are drawn by uniform_, normal_ and "
      "the other fills in place, but another operator asked for some. Make a tensor and fill it.");
  if (generator && generator->defined()) {
    return draw_from(*generator);
  }
  return with_state([](RankState& state) { return RandomCall{state.random.seed, state.random.calls++}; });
}

void before_draw(const DeviceMesh& mesh, RandomCall call) {
  if ((call.number & kOfGenerator) != 0) {
    return;
  }
  const bool compares = with_state([&](const RankState& state) {
    if (!state.compares_seeds) {
      return false;
    }
    const auto found = state.compared_seeds.find(mesh.hash());
    return found == state.compared_seeds.end() || found->second != call.seed;
  });
  if (C10_LIKELY(!compares) || mesh.size() == 1 || !mesh.is_member() || !is_real(mesh)) {
    return;
  }
  // The ranks come here in the same draw: the first on this mesh since each of them was seeded.
  check_seeds(mesh, call.seed);
  with_state([&](RankState& state) { state.compared_seeds[mesh.hash()] = call.seed; });
}

} // namespace weft
