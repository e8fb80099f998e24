#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <unordered_map>

namespace weft::graph {

/// The source of an executor's random numbers. A process that is one rank draws from torch's default generators, as
/// eager code does. Ranks that are threads of one process would share those in an arbitrary order. Each of them has its
/// own generators, which start with torch's seed, so that all ranks draw the same numbers. So does an executor with its
/// own seed.
class RandomSource {
 public:
  explicit RandomSource(bool has_own);

  void manual_seed(uint64_t seed);
  /// nullopt for torch's default generators.
  std::optional<at::Generator> generator(c10::Device device);

 private:
  std::optional<uint64_t> seed_; // of the executor's own generators
  std::unordered_map<c10::Device, at::Generator> own_;
};

/// Calls a random operator with an executor's generator: as an argument if the operator takes one, and otherwise as
/// torch's default generator for the duration of the call. A lock serializes the executors there, but other code that
/// draws from the default generator at the same time is not locked out.
class RandomOperator {
 public:
  explicit RandomOperator(const c10::FunctionSchema& schema);

  void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, RandomSource& source) const;

 private:
  size_t arguments_;
  std::optional<size_t> generator_; // the position of the generator argument
};

} // namespace weft::graph
