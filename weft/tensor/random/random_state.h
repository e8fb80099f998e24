#pragma once

#include "weft/core/device_mesh.h"

#include <ATen/core/Generator.h>

#include <optional>

namespace weft {

/// The seed until manual_seed is called.
constexpr uint64_t kDefaultSeed = 0x57656674;

/// The state of a rank's random numbers. Every random operation on distributed tensors takes one call number. The
/// number of an element depends on the seed, the call number and the element's index in the global tensor, and so not
/// on mesh or layout. All ranks must have the same state: they must use the same seed and call the same random
/// operations in the same order.
///
///   manual_seed(7);
///   auto x = randn({8, 16}, mesh, {Shard(0)});
///   const auto state = random_state();      // to be kept in a checkpoint
///   auto y = randn({8, 16}, mesh, {Shard(1)});
///   set_random_state(state);
///   auto z = randn({8, 16}, mesh, {Replicate()});   // the same numbers as y
struct RandomState {
  uint64_t seed = kDefaultSeed;
  uint64_t calls = 0; // the next call's number
  friend bool operator==(const RandomState&, const RandomState&) = default;
};

/// All ranks must give the same seed.
void manual_seed(uint64_t seed);
/// As manual_seed, for a seed that may differ between ranks, such as torch.manual_seed(seed + rank) for a data loader: the
/// ranks of a mesh compare their seeds in the first draw on it, by one all_gather of eight bytes, and raise where these
/// differ. A rank that alone was seeded waits for the others: its error comes with their next collective over all dims of
/// the mesh, or when the communicator's timeout has passed.
void manual_seed_to_compare(uint64_t seed);
RandomState random_state();
void set_random_state(const RandomState& state);

/// The seed and call number that determine the numbers of one random operation.
struct RandomCall {
  uint64_t seed;
  uint64_t number;
};

/// Takes a call from the rank's state or, if a generator is given, from the generator, and advances it. Generators in
/// equal states give equal numbers.
RandomCall next_random_call(const std::optional<at::Generator>& generator = std::nullopt);

/// Every operator calls this before it draws the numbers of a call for a tensor on this mesh: it compares the seeds of
/// manual_seed_to_compare.
void before_draw(const DeviceMesh& mesh, RandomCall call);

} // namespace weft
