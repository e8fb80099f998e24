#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/named_groups.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace weft {

namespace fused_operators_test {

using testing::error_text;
using testing::expect_contains;

/// Calls an operator by its name, as a program does, with the defaults of what is not given.
c10::IValue call(const char* name, std::vector<c10::IValue> arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  const auto& formals = op.schema().arguments();
  for (size_t i = arguments.size(); i < formals.size(); ++i) {
    arguments.push_back(formals[i].default_value().value());
  }
  op.callBoxed(&arguments);
  return arguments.at(0);
}

std::vector<at::Tensor> tensors(const c10::IValue& value) {
  return value.toTensorVector();
}

c10::List<std::optional<at::Tensor>> no_tensors(size_t count) {
  c10::List<std::optional<at::Tensor>> result;
  for (size_t i = 0; i < count; ++i) {
    result.push_back(std::nullopt);
  }
  return result;
}

c10::IValue optional_dtypes(std::vector<std::optional<at::ScalarType>> dtypes) {
  c10::impl::GenericList result(c10::OptionalType::create(c10::IntType::get()));
  for (const auto& dtype : dtypes) {
    result.push_back(dtype ? c10::IValue(*dtype) : c10::IValue());
  }
  return result;
}

void on_ranks(int64_t size, const std::function<void(int64_t rank)>& fn) {
  run_on_ranks(size, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {size}, {"tp"});
    const NamedGroupScope scope(groups_of(mesh));
    fn(rank);
  });
}

at::Tensor eight_bits(c10::IntArrayRef sizes, const char* device = "cpu") {
  return at::ones(sizes).to(at::kFloat8_e4m3fn).to(at::Device(device));
}

std::vector<c10::IValue> scaled_gather(const char* device, const c10::IValue& size) {
  const auto one = at::ones({}, at::Device(device));
  const std::vector<at::Tensor> others = {eight_bits({16, 16}, device).t(), eight_bits({32, 16}, device).t()};
  return {
      eight_bits({2, 16}, device),
      one,
      others,
      std::vector<at::Tensor>{one, one},
      no_tensors(2),
      no_tensors(2),
      optional_dtypes({at::kFloat, at::kBFloat16}),
      c10::List<bool>({false, false}),
      0,
      size,
      2,
      true,
      "tp"};
}

std::vector<c10::IValue> scaled_scatter(const char* device) {
  const auto one = at::ones({}, at::Device(device));
  return {
      eight_bits({4, 16}, device),
      eight_bits({16, 16}, device).t(),
      one,
      one,
      c10::IValue(),
      c10::IValue(),
      at::kFloat,
      false,
      "sum",
      0,
      1,
      "tp"};
}

TEST(FusedOperators, GatherAndMultiply) {
  on_ranks(2, [](int64_t rank) {
    const auto shard = at::full({2, 4}, static_cast<double>(rank + 1));
    c10::List<std::optional<at::Tensor>> biases;
    biases.push_back(at::ones({3}));
    const auto results = tensors(call(
        "weft::all_gather_matmul",
        {shard, std::vector<at::Tensor>{at::ones({4, 3})}, biases, 0, c10::IValue(), 2, true, "tp"}));
    ASSERT_EQ(results.size(), 2U);
    EXPECT_TRUE(at::equal(results[0], at::cat({at::full({2, 3}, 5.0), at::full({2, 3}, 9.0)})));
    EXPECT_TRUE(at::equal(results[1], at::cat({at::full({2, 4}, 1.0), at::full({2, 4}, 2.0)})));
    const auto alone = tensors(call(
        "weft::all_gather_matmul",
        {shard, std::vector<at::Tensor>{at::ones({4, 3})}, no_tensors(0), 0, 4, 2, false, "tp"}));
    ASSERT_EQ(alone.size(), 1U);
    EXPECT_TRUE(at::equal(alone[0], results[0] - 1));
  });
}

TEST(FusedOperators, MultiplyAndScatter) {
  on_ranks(2, [](int64_t rank) {
    const std::vector<at::Tensor> inputs(2, at::full({3, 4}, static_cast<double>(rank + 1)));
    const std::vector<at::Tensor> others(2, at::ones({4, 3}));
    const auto result =
        call("weft::matmul_reduce_scatter", {inputs, others, at::ones({3}), "avg", 0, 2, "tp"}).toTensor();
    EXPECT_TRUE(at::equal(result, at::full({rank == 0 ? 2 : 1, 3}, 13.0)));
  });
}

TEST(FusedOperators, TheFormsWithScales) {
  on_ranks(2, [](int64_t) {
    const auto results = tensors(call("weft::all_gather_scaled_matmul", scaled_gather("cpu", {})));
    ASSERT_EQ(results.size(), 3U);
    EXPECT_TRUE(at::equal(results[0], at::full({4, 16}, 16.0)));
    EXPECT_TRUE(at::equal(results[1], at::full({4, 32}, 16.0, at::kBFloat16)));
    EXPECT_EQ(results[2].scalar_type(), at::kFloat8_e4m3fn);
    const auto scattered = call("weft::scaled_matmul_reduce_scatter", scaled_scatter("cpu")).toTensor();
    EXPECT_TRUE(at::equal(scattered, at::full({2, 16}, 32.0)));
  });
}

TEST(FusedOperators, OnMetaTheyGiveTheShapes) {
  on_ranks(2, [](int64_t rank) {
    const auto meta = [](c10::IntArrayRef sizes) { return at::ones(sizes, at::kMeta); };
    const auto gather = [&](const c10::IValue& size) {
      return tensors(call(
          "weft::all_gather_matmul",
          {meta({2, 3, 4}), std::vector<at::Tensor>{meta({4, 5}), meta({4, 6})}, no_tensors(0), 1, size, 2, true,
           "tp"}));
    };
    const auto equal = gather({});
    ASSERT_EQ(equal.size(), 3U);
    EXPECT_EQ(equal[0].sizes(), c10::IntArrayRef({2, 6, 5}));
    EXPECT_EQ(equal[1].sizes(), c10::IntArrayRef({2, 6, 6}));
    EXPECT_EQ(equal[2].sizes(), c10::IntArrayRef({2, 6, 4}));
    EXPECT_TRUE(equal[0].is_meta());
    EXPECT_EQ(gather(5)[0].sizes(), c10::IntArrayRef({2, 5, 5}));
    const auto scattered = call(
        "weft::matmul_reduce_scatter",
        {std::vector<at::Tensor>{meta({5, 4})}, std::vector<at::Tensor>{meta({4, 6})}, c10::IValue(), "sum", 0, 2,
         "tp"});
    EXPECT_EQ(scattered.toTensor().sizes(), c10::IntArrayRef({rank == 0 ? 3 : 2, 6}));
    const auto scaled = tensors(call("weft::all_gather_scaled_matmul", scaled_gather("meta", {})));
    EXPECT_EQ(scaled[1].sizes(), c10::IntArrayRef({4, 32}));
    EXPECT_EQ(scaled[1].scalar_type(), at::kBFloat16);
    const auto scaled_piece = call("weft::scaled_matmul_reduce_scatter", scaled_scatter("meta")).toTensor();
    EXPECT_EQ(scaled_piece.sizes(), c10::IntArrayRef({2, 16}));
  });
}

TEST(FusedOperators, ArgumentsThatDoNotFitAreErrors) {
  on_ranks(1, [](int64_t) {
    auto arguments = scaled_gather("cpu", {});
    arguments[7] = c10::List<bool>({false});
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { call("weft::all_gather_scaled_matmul", arguments); }),
        "[all_gather_scaled_matmul] as many values of use_fast_accum as others are required, but got 1 for 2.");
    const std::vector<at::Tensor> inputs = {at::ones({2, 2})};
    expect_contains(
        error_text<c10::ValueError>(
            [&] { call("weft::matmul_reduce_scatter", {inputs, inputs, c10::IValue(), "max", 0, 1, "tp"}); }),
        "the reduction must be sum or avg, but got max.");
    expect_contains(
        error_text<c10::ValueError>(
            [&] { call("weft::matmul_reduce_scatter", {inputs, inputs, c10::IValue(), "sum", 0, 1, "pp"}); }),
        "but got 'pp', which is neither of mesh dims");
    const std::vector<at::Tensor> on_meta = {at::ones({2, 2}, at::kMeta)};
    expect_contains(
        error_text<c10::ValueError>(
            [&] { call("weft::matmul_reduce_scatter", {on_meta, on_meta, c10::IValue(), "sum", 2, 1, "tp"}); }),
        "an input of at least two dims and one of them are required, but got [2, 2] and dim 2.");
  });
}

} // namespace fused_operators_test

} // namespace weft
