#include "weft/tensor/dispatch/local_call.h"
#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/dispatch/prepare.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace local_call_test {
using namespace weft::testing;

/// Prepares a call, whose tensors are in no lists, and runs it twice: the second time as it is found in the cache.
std::vector<c10::IValue> run_twice(const char* name, const char* overload, const std::vector<c10::IValue>& arguments) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const OperatorTraits traits(op);
  OperandRefs operands;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isTensor()) {
      const auto& tensor = arguments[i].toTensor();
      operands.push_back({static_cast<int32_t>(i), -1, &tensor, as_dtensor(tensor)});
    }
  }
  auto call = prepare(op, traits, arguments, operands);
  torch::jit::Stack stack;
  for (int time = 0; time < 2; ++time) {
    stack = arguments;
    run_local_call(op, traits.schema, call, &stack, operands);
  }
  return stack;
}

TEST(LocalCall, ReplacesTheArgumentsByTheResult) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({5, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto results = run_twice("aten::add", "Tensor", {x, distribute_tensor(global, mesh, {Shard(1)}), 2});
    ASSERT_EQ(results.size(), 1U);
    expect_equal(full_tensor(results[0].toTensor()), global * 3);
  });
}

TEST(LocalCall, CommunicatesInTheNameOfTheOperator) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const CommLog log(mesh);
    at::cumsum(x, 0);
    ASSERT_EQ(log.rows().size(), 1U) << log.to_string();
    EXPECT_EQ(log.rows()[0].operator_name, "aten::cumsum");
  });
}

TEST(LocalCall, AViewThatHadToBeCopiedHasStridesInTheOrderOfTheView) {
  expect_as_plain({parameter({3, 2, 1})}, [](const Values& in) -> Values {
    return {in[0].transpose(0, -1).select(0, 0).t().reshape(-1), in[0].permute({2, 1, 0}).select(0, 0).reshape(-1)};
  });
  expect_as_plain({parameter({4, 3, 2})}, [](const Values& in) -> Values {
    return {
        in[0].transpose(0, 2).slice(2, 1, 3).transpose(0, 1).reshape({3, -1}),
        in[0].transpose(0, 1).select(0, 1).flatten()};
  });
}

TEST(LocalCall, WhatIsReadFromTheMemoryThatIsWrittenIsCopiedFirst) {
  // Rank 1 holds nothing: kernels would raise on rank 0 alone.
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({6, 1});
    const auto rows = distribute_tensor(at::arange(1, 4), mesh, {Replicate()});
    for (int time = 0; time < 2; ++time) {
      const auto x = distribute_tensor(global, mesh, {Shard(1)});
      x.index_copy_(0, rows, x.slice(0, 0, 3));
      expect_equal(full_tensor(x), at::cat({global.slice(0, 0, 1), global.slice(0, 0, 3), global.slice(0, 4)}));
      x.slice(0, 1).copy_(x.slice(0, 0, 5));
      x.slice(0, 0, 5).add_(x.slice(0, 1));
      at::_foreach_add_(Values{x.slice(0, 0, 5)}, Values{x.slice(0, 1)});
      const auto y =
          at::cat({global.slice(0, 0, 1), global.slice(0, 0, 1), global.slice(0, 0, 3), global.slice(0, 4, 5)});
      auto expected = y.clone();
      for (int i = 0; i < 2; ++i) {
        expected.slice(0, 0, 5).add_(expected.slice(0, 1).clone());
      }
      expect_equal(full_tensor(x), expected);
    }
  });
}

TEST(LocalCall, WhatIsReadWhereItIsWrittenIsNotCopied) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    for (int time = 0; time < 2; ++time) {
      x.mul_(x).add_(x.view_as(x));
    }
    const auto once = global * global * 2;
    expect_equal(full_tensor(x), once * once * 2);
  });
}

TEST(LocalCall, AReplicatedResultHasTheSizeThatTheDeviceGivesIt) {
  // Saved statistics are empty on this device if the running ones are used, but not on meta.
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2, 3}), mesh, {Shard(0)});
    const auto channels = distribute_tensor(at::ones({2}), mesh, {Replicate()});
    for (int time = 0; time < 2; ++time) {
      const auto saved =
          std::get<1>(at::native_batch_norm(x, channels, channels, channels, channels, /*training=*/false, 0.1, 1e-5));
      EXPECT_EQ(saved.sizes(), c10::IntArrayRef{0});
    }
  });
  expect_as_plain({parameter({4, 2, 3}), parameter({2}), at::ones({2}, at::kDouble)}, [](const Values& in) -> Values {
    const auto out = at::batch_norm(in[0], in[1], {}, in[2], in[2], /*training=*/false, 0.1, 1e-5, /*cudnn=*/false);
    out.pow(2).sum().backward();
    return {out.detach(), in[0].grad(), in[1].grad()};
  });
}

TEST(LocalCall, AResultThatIsNotStridedRaises) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    EXPECT_EQ(
        error_text<c10::NotImplementedError>([&] { x.to_sparse(); }),
        "[aten::_to_sparse] a strided result is required, but got one of layout Sparse for f32[4,2] @ mesh(a=2) "
        "{S(0)}. "
        "Call it on full_tensor(t).");
  });
}

TEST(LocalCall, WhatIsWrittenIsReturnedAsTheTensorItIs) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto results = run_twice("aten::mul_", "Tensor", {x, distribute_tensor(global, mesh, {Shard(1)})});
    EXPECT_TRUE(results.at(0).toTensor().is_same(x));
    expect_equal(full_tensor(x), global * global * global);
  });
}

TEST(LocalCall, AWrittenOperandIsRedistributedBackToItsLayout) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({5, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto index = at::tensor({1, 8}, at::kLong);
    const auto source = whole_numbers({2});
    run_twice(
        "aten::put_", "",
        {x, distribute_tensor(index, mesh, {Replicate()}), distribute_tensor(source, mesh, {Shard(0)}), true});
    EXPECT_EQ(spec_of(x)->layout(), Layout{Shard(0)});
    expect_equal(full_tensor(x), global.put(index, source, true).put(index, source, true));
  });
}

TEST(LocalCall, AViewSharesTheMemoryOfItsBase) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)});
    const auto view = run_twice("aten::slice", "Tensor", {x, 1, 2, 5, 1}).at(0).toTensor();
    EXPECT_TRUE(to_local(view).is_alias_of(to_local(x)));
    EXPECT_EQ(view.storage_offset(), 2);
    EXPECT_EQ(view.strides(), (c10::IntArrayRef{6, 1}));
    EXPECT_FALSE(as_dtensor(view)->is_copy_of_base());
    const auto of_view = view.select(1, 1);
    EXPECT_EQ(of_view.storage_offset(), 3);
    EXPECT_TRUE(as_dtensor(x.select(0, 3).unsqueeze(0))->is_copy_of_base());
  });
}

TEST(LocalCall, RanksLookUpTheRowsTheyHold) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto table = whole_numbers({7, 2});
    const auto positions = at::tensor({6, 0, 3, 3, 2}, at::kLong);
    const auto found = run_twice(
        "aten::embedding", "",
        {distribute_tensor(table, mesh, {Shard(0)}), distribute_tensor(positions, mesh, {Replicate()}), -1, false,
         false});
    expect_equal(full_tensor(found.at(0).toTensor()), at::embedding(table, positions));
  });
}

TEST(LocalCall, ResultsAreLaidOutAsOnASingleDevice) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 6});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    EXPECT_EQ((x.t() * 2).strides(), (global.t() * 2).strides());
    EXPECT_FALSE(to_local(x.t() * 2).is_contiguous());
    EXPECT_TRUE(to_local(x.t().contiguous()).is_contiguous());
  });
}

TEST(LocalCall, SizesThatFollowFromValuesAreThoseOfTheSingleDevice) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto a = at::tensor({1, 0, 2, 0, 3}, at::kLong);
    const auto b = at::tensor({0, 0, 0, 0, 3}, at::kLong);
    for (int time = 0; time < 2; ++time) {
      expect_equal(full_tensor(at::nonzero(distribute_tensor(a, mesh, {Shard(0)}))), at::nonzero(a));
      expect_equal(full_tensor(at::nonzero(distribute_tensor(b, mesh, {Shard(0)}))), at::nonzero(b));
    }
  });
}

} // namespace local_call_test

} // namespace weft
