#include "weft/tensor/dispatch/foreign_operators.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/rules/register_rule.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace weft {

namespace foreign_operators_test {
using namespace weft::testing;

at::Tensor twice(const at::Tensor& x) {
  TORCH_CHECK(!is_dtensor(x));
  return x * 2;
}

void add_to(at::Tensor& x, double number) {
  TORCH_CHECK(!is_dtensor(x));
  x.add_(number);
}

TORCH_LIBRARY(weft_foreign, m) {
  m.def("on_cpu(Tensor x) -> Tensor");
  m.def("everywhere(Tensor x) -> Tensor", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, twice));
  m.def("ruled(Tensor x) -> Tensor", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, twice));
  m.def("add_to(Tensor(a!) x, float number) -> ()");
  m.def(
      torch::schema("random(Tensor x) -> Tensor"), torch::dispatch(c10::DispatchKey::CPU, twice),
      {at::Tag::nondeterministic_seeded});
}

TORCH_LIBRARY_IMPL(weft_foreign, CPU, m) {
  m.impl("on_cpu", twice);
  m.impl("add_to", add_to);
}

const bool kRuled = weft::register_rule("weft_foreign::ruled", {"([a,b])->([a,b]) linear={0}"});

at::Tensor call(const char* name, const at::Tensor& x) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<at::Tensor(const at::Tensor&)>().call(x);
}

TEST(ForeignOperators, RunOnReplicatedTensorsWithoutARule) {
  const auto global = at::arange(8, at::kFloat).reshape({4, 2});
  const auto before = fallback_counts();
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    for (const auto* name : {"weft_foreign::on_cpu", "weft_foreign::everywhere"}) {
      const ExplainLog log;
      const auto y = call(name, x);
      EXPECT_EQ(placements(y)[0], Replicate());
      EXPECT_TRUE(at::equal(to_local(y), global * 2)) << name;
      expect_contains(to_string(log.calls()), "no rule for this operator");
    }
  });
  auto after = fallback_counts();
  EXPECT_GT(after["weft_foreign::on_cpu"], 0U);
  EXPECT_GT(after["weft_foreign::everywhere"], 0U);
}

TEST(ForeignOperators, RunByARegisteredRule) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({5, 2}), mesh, {Shard(0)});
    EXPECT_EQ(placements(call("weft_foreign::ruled", x))[0], Shard(0));
    EXPECT_TRUE(at::equal(full_tensor(call("weft_foreign::ruled", x)), at::full({5, 2}, 2.0)));
  });
}

TEST(ForeignOperators, WriteToShardedTensors) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto x = distribute_tensor(at::ones({5, 2}), mesh, {Shard(0)});
    c10::Dispatcher::singleton()
        .findSchemaOrThrow("weft_foreign::add_to", "")
        .typed<void(at::Tensor&, double)>()
        .call(x, 2);
    EXPECT_EQ(placements(x)[0], Shard(0));
    EXPECT_TRUE(at::equal(full_tensor(x), at::full({5, 2}, 3.0)));
  });
}

TEST(ForeignOperators, RandomOnesWithoutAGeneratorRaise) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({5, 2}), mesh, {Replicate()});
    expect_contains(
        error_text([&] { call("weft_foreign::random", x); }),
        "[weft_foreign::random] draws random numbers (nondeterministic_seeded), which would differ between ranks");
  });
}

TEST(ForeignOperators, CanBeDefinedLater) {
  torch::Library library(torch::Library::FRAGMENT, "weft_foreign", std::nullopt, __FILE__, __LINE__);
  on_mesh({2}, [](const DeviceMesh& mesh) { distribute_tensor(at::ones({2}), mesh, {Shard(0)}); });
  library.def("late(Tensor x) -> Tensor", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, twice));
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    EXPECT_TRUE(at::equal(to_local(call("weft_foreign::late", x)), at::full({4}, 2.0)));
  });
}

} // namespace foreign_operators_test

} // namespace weft
