#include "weft/graph/exec/prepare.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/program_builder.h"
#include "weft/graph/exec/executor.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace weft::graph {

namespace prepare_test {

using namespace weft::testing;

/// Counts the tensors that are alive whenever the operator weft_test::probe has made another one.
struct Census {
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made;
  std::vector<size_t> alive;

  void add(const at::Tensor& tensor) {
    made.emplace_back(tensor.storage().getWeakStorageImpl());
    alive.push_back(std::count_if(made.begin(), made.end(), [](const auto& each) { return each.use_count() > 0; }));
  }
};

Census* census = nullptr;

at::Tensor probe(const at::Tensor& x, const at::Tensor& y) {
  auto made = x + y;
  census->add(made);
  return made;
}

std::tuple<at::Tensor, at::Tensor> probe_two(const at::Tensor& x) {
  auto first = x + 1;
  census->add(first);
  auto second = x + 2;
  census->add(second);
  return {first, second};
}

TORCH_LIBRARY(weft_test_prepare, library) {
  library.def("probe(Tensor x, Tensor y) -> Tensor", probe);
  library.def("probe_two(Tensor x) -> (Tensor, Tensor)", probe_two);
}

/// Runs a program on x = ones(2) and returns the number of live values at every step.
std::vector<size_t> alive_in(const std::function<void(ProgramBuilder& build, Value* x)>& add_nodes) {
  ProgramBuilder build;
  add_nodes(build, build.input("x", at::kFloat, {2}));
  Executor executor(build.finish());
  executor.run({at::ones({2})});
  Census counted;
  census = &counted;
  executor.run({at::ones({2})});
  census = nullptr;
  return counted.alive;
}

Value* probed(ProgramBuilder& build, Value* x, Value* y) {
  return build.call("weft_test_prepare::probe", {x, y});
}

class WithCensus : public ::testing::Test {
 protected:
  WithCensus() {
    census = &first_runs_;
  }

 private:
  Census first_runs_;
};

using Prepare = WithCensus;

TEST_F(Prepare, FreesAValueAtItsLastUse) {
  // A chain has at most two live values: the operand and the result of a node.
  const auto alive = alive_in([](auto& build, auto* x) {
    for (int i = 0; i < 6; ++i) {
      x = probed(build, x, x);
    }
    build.output(x);
  });
  EXPECT_EQ(alive, (std::vector<size_t>{1, 2, 2, 2, 2, 2}));
}

TEST_F(Prepare, KeepsAValueUntilItsLastUse) {
  const auto alive = alive_in([](auto& build, auto* x) {
    auto* a = probed(build, x, x);
    auto* b = probed(build, a, a);
    auto* c = probed(build, b, b);
    auto* d = probed(build, c, a);
    auto* e = probed(build, d, d);
    build.output(probed(build, e, e));
  });
  EXPECT_EQ(alive, (std::vector<size_t>{1, 2, 3, 3, 2, 2}));
}

TEST_F(Prepare, FreesValuesWithoutUses) {
  const auto alive = alive_in([](auto& build, auto* x) {
    auto* unread = probed(build, x, x);
    (void)unread;
    auto* two = build.node("weft_test_prepare::probe_two", {x});
    build.output(probed(build, two->output(0), two->output(0)));
  });
  EXPECT_EQ(alive, (std::vector<size_t>{1, 1, 2, 2}));
}

TEST_F(Prepare, FreesTheTensorsOfAListAndWhatSizesAreReadFrom) {
  const auto alive = alive_in([](auto& build, auto* x) {
    auto* a = probed(build, x, x);
    auto* b = probed(build, x, x);
    auto* both = build.call("aten::cat", {{a, b}});
    auto* size = build.call("aten::sym_size.int", {both, 0});
    auto* filled = build.call("aten::full", {{size}, 1.5});
    build.output(probed(build, filled, filled));
  });
  EXPECT_EQ(alive, (std::vector<size_t>{1, 2, 1}));
}

TEST_F(Prepare, LetsGoOfInputs) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {2});
  build.output(probed(build, x, x));
  Executor executor(build.finish());
  auto given = at::ones({2});
  const auto weak = given.storage().getWeakStorageImpl();
  std::vector<c10::IValue> inputs = {std::move(given)};
  executor.run(std::move(inputs));
  EXPECT_EQ(weak.use_count(), 0);
}

TEST_F(Prepare, KnowsWhetherAGraphCommunicates) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {2});
  build.output(build.call("aten::neg", {x}));
  EXPECT_FALSE(has_collectives(*build.program().graph));
  build.call("_c10d_functional::all_reduce", {x, "sum", "tp"});
  EXPECT_TRUE(has_collectives(*build.program().graph));
}

TEST_F(Prepare, RefusesAnArgumentThatIsMissing) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {2});
  build.output(build.call("aten::add.Tensor", {x}));
  const auto program = build.finish();
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { Executor executor(program); }),
      "[Executor] argument 'other' of aten::add.Tensor is required, but got none.");
}

TEST_F(Prepare, RefusesAGraphThatDoesNotEnd) {
  const auto program = std::make_shared<Program>();
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { Executor executor(program); }),
      "[Executor] a graph that ends with a return is required.");
}

} // namespace prepare_test

} // namespace weft::graph
