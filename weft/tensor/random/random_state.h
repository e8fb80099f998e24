#pragma once

#include <ATen/core/Generator.h>

#include <optional>

namespace weft {

/// Until manual_seed is called.
constexpr uint64_t kDefaultSeed = 0x57656674;

/// Where a rank is in its random numbers. Every random operation on distributed tensors takes one call number; the
/// numbers of an element follow from the seed, the call number and its index in the global tensor. So they do not
/// depend on mesh or layout, as long as all ranks have the same state: they seed alike, and each calls the random
/// operations that the others call, in the same order.
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

void manual_seed(uint64_t seed);
RandomState random_state();
void set_random_state(const RandomState& state);

/// What fixes the numbers of one random operation.
struct RandomCall {
  uint64_t seed;
  uint64_t number;
};

/// Of the rank's own state, or, where a generator is given, of that one, which moves on: generators in equal states give
/// equal numbers.
RandomCall next_random_call(const std::optional<at::Generator>& generator = std::nullopt);

} // namespace weft
