#include "weft/tensor/random/random_kernels.h"
#include "weft/tensor/impl/install_dispatch.h"

#include "weft/tensor/dispatch.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/random/random_fallback.h"

#include <gtest/gtest.h>

#include <ATen/core/dispatch/Dispatcher.h>

#include <set>

namespace weft {

namespace random_kernels_test {
/// Operators that ATen marks as random, take a distributed tensor, and may be left to the rules and to replicating: they
/// draw nothing, or by a seed that is among their arguments.
bool draws_nothing_of_its_own(const std::string& name) {
  static const std::set<std::string> names = {
      "aten::_fill_mem_eff_dropout_mask_", // the seed is an argument
      "aten::_fused_sdp_choice",           // names a backend
      "aten::_nested_tensor_softmax_with_shape"};
  return names.count(name) > 0;
}

bool takes_a_tensor(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
    return argument.type()->isSubtypeOf(*c10::OptionalType::create(c10::TensorType::get()));
  });
}

TEST(RandomKernels, NoOperatorIsLeftToTheGeneratorsOfTheRanks) {
  install_dispatch();
  auto& dispatcher = c10::Dispatcher::singleton();
  const auto generic = dispatcher.findOp({"aten::add", "Tensor"});
  ASSERT_TRUE(generic);
  size_t seen = 0;
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = name.name.starts_with("aten::") ? dispatcher.findOp(name) : std::nullopt;
    if (!op || !op->hasSchema() || !op->hasTag(at::Tag::nondeterministic_seeded) || !takes_a_tensor(op->schema())) {
      continue;
    }
    ++seen;
    const bool is_composed = op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
    const bool has_generator = op->schema().argumentIndexWithName("generator").has_value();
    const bool is_known = op->schema().name() == "aten::native_dropout";
    EXPECT_TRUE(
        is_composed || (has_generator && op->hasKernelForDispatchKey(kDTensorKey)) || is_known ||
        inner_dropout_argument(*op).has_value() || draws_nothing_of_its_own(name.name))
        << op->schema() << " draws random numbers, and nothing makes them the same on all ranks";
  }
  EXPECT_GT(seen, 60U);
}

TEST(RandomKernels, WhatAtenComposesHasNoKernelOfItsOwn) {
  install_dispatch();
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto* overload : {"", "out"}) {
    const auto op = dispatcher.findOp({"aten::uniform", overload});
    ASSERT_TRUE(op);
    EXPECT_TRUE(is_composed_of_random(*op));
    EXPECT_FALSE(op->hasKernelForDispatchKey(kDTensorKey));
  }
  EXPECT_FALSE(is_composed_of_random(*dispatcher.findOp({"aten::uniform_", ""})));
}

} // namespace random_kernels_test

} // namespace weft
