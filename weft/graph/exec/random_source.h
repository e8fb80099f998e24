#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <unordered_map>

namespace weft::graph {

/// Where the random numbers of an executor come from. A process that is one rank draws from torch's default generators, as
/// eager code does. Ranks that are threads of one process would draw from those in turns: each has generators of its own,
/// which begin like torch's do, so that all ranks draw the same. So has an executor that was given a seed.
class RandomSource {
 public:
  explicit RandomSource(bool has_own);

  void manual_seed(uint64_t seed);
  /// nullopt: torch's own.
  std::optional<at::Generator> generator(c10::Device device);

 private:
  std::optional<uint64_t> seed_; // of own generators
  std::unordered_map<c10::Device, at::Generator> own_;
};

/// A random operator, called with an executor's generator: handed over where the operator takes one, and in the place of
/// torch's default generator while it runs where it does not. Executors take turns at that; code beside them that draws
/// from the default generator at the same time is not kept from it.
class RandomOperator {
 public:
  explicit RandomOperator(const c10::FunctionSchema& schema);

  void call(const c10::OperatorHandle& op, torch::jit::Stack& stack, RandomSource& source) const;

 private:
  size_t arguments_;
  std::optional<size_t> generator_; // its position
};

} // namespace weft::graph
