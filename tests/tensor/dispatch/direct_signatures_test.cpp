#include "weft/tensor/dispatch/direct_signatures.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"
#include "weft/tensor/impl/scopes.h"

#include <ATen/ATen.h>

namespace weft {

namespace direct_signatures_test {
using namespace weft::testing;

bool is_direct(const char* name, const char* overload) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  return has_direct_signature(DTensorKernel(op));
}

TEST(DirectSignatures, AreThoseOfTheOperatorsThatTrainingCallsMost) {
  EXPECT_TRUE(is_direct("aten::relu", ""));
  EXPECT_TRUE(is_direct("aten::mm", ""));
  EXPECT_TRUE(is_direct("aten::linear", ""));
  EXPECT_TRUE(is_direct("aten::add", "Tensor"));
  EXPECT_TRUE(is_direct("aten::add_", "Tensor"));
  EXPECT_TRUE(is_direct("aten::addmm", ""));
  EXPECT_TRUE(is_direct("aten::sum", "dim_IntList"));
  EXPECT_TRUE(is_direct("aten::_softmax", ""));
  EXPECT_TRUE(is_direct("aten::t", ""));
  EXPECT_TRUE(is_direct("aten::view", ""));
  EXPECT_TRUE(is_direct("aten::select", "int"));
  EXPECT_TRUE(is_direct("aten::embedding", ""));
  EXPECT_TRUE(is_direct("aten::max", "dim"));
  EXPECT_TRUE(is_direct("aten::native_layer_norm", ""));
  EXPECT_TRUE(is_direct("aten::cat", ""));
  EXPECT_TRUE(is_direct("aten::split", "Tensor"));
  EXPECT_TRUE(is_direct("aten::unbind", "int"));
  EXPECT_TRUE(is_direct("aten::_foreach_sqrt", ""));
  EXPECT_TRUE(is_direct("aten::_foreach_addcdiv_", "ScalarList"));
}

TEST(DirectSignatures, LeaveOutOutArgumentsAndWhatCppCallsOtherwise) {
  EXPECT_FALSE(is_direct("aten::add", "out"));
  // Their schemas look like that of mul_, but C++ takes and returns the tensor as constant.
  EXPECT_FALSE(is_direct("aten::resize_as_sparse_", ""));
}

/// Calls fn three times: the first call is prepared, and the others must find it, with the same result.
void expect_found_again(const char* name, const std::function<at::Tensor()>& fn) {
  SCOPED_TRACE(name);
  const auto first = full_tensor(fn());
  const auto before = call_cache_counters();
  const auto second = fn();
  const auto third = fn();
  const auto after = call_cache_counters();
  EXPECT_EQ(after.misses, before.misses);
  EXPECT_EQ(after.size, before.size);
  EXPECT_GE(after.direct_hits, before.direct_hits + 2);
  expect_equal(full_tensor(second), first);
  expect_equal(full_tensor(third), first);
}

TEST(DirectKernel, FindsEveryKindOfArgumentWhereTheGeneralCallHasPutIt) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const c10::NoGradGuard no_grad;
    const auto x = distribute_tensor(whole_numbers({6, 4}), mesh, {Shard(0)});
    const auto square = distribute_tensor(whole_numbers({4, 4}), mesh, {Replicate()});
    const auto weight = distribute_tensor(whole_numbers({4}), mesh, {Replicate()});
    const auto rows = distribute_tensor(at::tensor({1, 0, 3, 2}), mesh, {Shard(0)});
    expect_found_again("relu", [&] { return x.relu(); });
    expect_found_again("mm", [&] { return x.mm(square); });
    expect_found_again("cat", [&] { return at::cat({x, x}, 1); });
    expect_found_again("split", [&] { return x.split(2, 1)[1]; });
    expect_found_again("unbind", [&] { return x.unbind(1)[2]; });
    // A part that is written to is a view.
    x.split(2, 1)[0].mul_(1);
    expect_found_again("add int", [&] { return x.add(x, 2); });
    expect_found_again("add double", [&] { return x.add(x, 2.5); });
    expect_found_again("add number", [&] { return x.mul(2.0); });
    expect_found_again("a plain tensor without dims", [&] { return x.mul(at::scalar_tensor(3.0)); });
    expect_found_again("an optional tensor", [&] { return at::linear(x, square, weight); });
    expect_found_again("no optional tensor", [&] { return at::linear(x, square); });
    expect_found_again("dims", [&] { return x.sum({1}); });
    expect_found_again("dims and a dtype", [&] { return x.sum({1}, /*keepdim=*/true, at::kDouble); });
    expect_found_again("no dims", [&] { return x.sum(at::OptionalIntArrayRef(), /*keepdim=*/true); });
    expect_found_again("an int and a bool", [&] { return at::_softmax(x, 1, false); });
    expect_found_again("two ints", [&] { return x.transpose(0, 1); });
    expect_found_again("an index", [&] { return x.select(1, 2); });
    expect_found_again("a memory format", [&] { return x.clone(at::MemoryFormat::Contiguous); });
    expect_found_again("embedding", [&] { return at::embedding(square, rows); });
    expect_found_again("two results", [&] { return std::get<0>(x.max(1, true)); });
    expect_found_again("three results", [&] { return std::get<0>(at::native_layer_norm(x, {4}, weight, {}, 1e-5)); });
  });
}

TEST(DirectKernel, WritesInPlaceAndGivesTheTensorItself) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({6, 4}), mesh, {Shard(0)});
    for (int time = 0; time < 3; ++time) {
      EXPECT_TRUE(x.add_(x, 1.0).is_same(x));
    }
    expect_equal(full_tensor(x), whole_numbers({6, 4}) * 8);
  });
}

TEST(DirectKernel, WritesToListsAndGivesLists) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({6, 4}), mesh, {Shard(0)});
    const auto y = distribute_tensor(whole_numbers({3}), mesh, {Replicate()});
    const std::vector<at::Tensor> list = {x.clone(), y.clone()};
    std::vector<at::Tensor> doubled;
    const auto before = call_cache_counters();
    for (int time = 0; time < 3; ++time) {
      at::_foreach_add_(list, {x, y}, 2);
      at::_foreach_mul_(list, std::vector<at::Scalar>{1.0, -1.0});
      doubled = at::_foreach_mul(list, 2.0);
    }
    EXPECT_EQ(call_cache_counters().direct_hits, before.direct_hits + 6);
    expect_equal(full_tensor(list[0]), whole_numbers({6, 4}) * 7);
    expect_equal(full_tensor(list[1]), whole_numbers({3}) * -3);
    ASSERT_EQ(doubled.size(), 2U);
    expect_equal(full_tensor(doubled[1]), whole_numbers({3}) * -6);
  });
}

TEST(DirectKernel, GivesViewsThatShareTheMemory) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::zeros({6, 4}), mesh, {Shard(0)});
    for (int time = 0; time < 3; ++time) {
      x.t().add_(1.0);
    }
    expect_equal(full_tensor(x), at::full({6, 4}, 3.0));
  });
}

TEST(DirectKernel, LeavesToTheGeneralWayWhatAScopeObserves) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({6, 4}), mesh, {Shard(0)});
    x.relu();
    x.relu();
    ExplainLog log;
    x.relu();
    EXPECT_EQ(log.calls().size(), 1U);
  });
}

TEST(DirectKernel, RefusesAViewThatIsOutOfDate) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({3, 4}), mesh, {Shard(0)});
    const auto view = x.view({4, 3}); // has to be redistributed
    view.relu();
    view.relu();
    x.add_(1.0);
    const auto text = error_text<c10::ValueError>([&] { view.relu(); });
    EXPECT_NE(text.find("has changed since"), std::string::npos) << text;
  });
}

TEST(DirectKernel, KeepsTheLayoutOfAParametersGradient) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({6, 4}), mesh, {Shard(0)});
    const auto known = distribute_tensor(whole_numbers({4, 4}), mesh, {Shard(1)}).requires_grad_();
    const auto fresh = distribute_tensor(whole_numbers({4, 4}), mesh, {Shard(1)}).requires_grad_();
    x.mm(known); // the same call for the same spec
    x.mm(known);
    x.mm(fresh).sum().backward();
    EXPECT_EQ(spec_of(fresh.grad())->layout(), spec_of(fresh)->layout());
  });
}

} // namespace direct_signatures_test

} // namespace weft
