#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/run_program.h"
#include "weft/graph/capture/capture.h"
#include "weft/graph/ir/print.h"
#include "weft/tensor/distribute.h"

namespace weft::graph {

namespace recorder_local_test {
using namespace weft::testing;
using Tensors = std::vector<at::Tensor>;

TEST(RecorderLocal, RecordsOperatorsOnLocalTensorsAndCollectives) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::arange(8, at::kFloat).view({4, 2}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(at::arange(8, at::kFloat).view({2, 4}), mesh, {Shard(1)});
    const auto captured = capture_local(
        [&](const Tensors& in) { return Tensors{at::mm(redistribute(in[0], {Replicate()}), weight).sum()}; }, {x});
    EXPECT_EQ(operators_of(*captured.program.graph), "weft::redistribute_local mm sum") << to_string(captured.program);
    ASSERT_EQ(captured.outside.size(), 1U);
    EXPECT_TRUE(captured.outside[0].is_same(weight));
    EXPECT_TRUE(captured.program.tensors.at("constant_0").is_same(as_dtensor(weight)->local()));
    EXPECT_EQ(captured.program.graph->inputs()[1]->tensor().sizes, (Sizes{2, 2})) << "the local sizes";
    EXPECT_EQ(captured.program.mesh, mesh);
    EXPECT_EQ(as_dtensor(captured.results[0])->spec()->layout(), Layout{Partial()});
  });
}

TEST(RecorderLocal, AnAllReduceIsAFunctionalCollective) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::arange(4, at::kFloat), mesh, {Shard(0)});
    const auto captured =
        capture_local([](const Tensors& in) { return Tensors{redistribute(in[0].sum(), {Replicate()})}; }, {x});
    EXPECT_EQ(operators_of(*captured.program.graph), "sum _c10d_functional::all_reduce _c10d_functional::wait_tensor");
    EXPECT_NE(to_string(captured.program).find("\"sum\", \"a\")"), std::string::npos) << to_string(captured.program);
  });
}

TEST(RecorderLocal, NumbersOfTheTextAreRead) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    const auto captured = capture_local([](const Tensors& in) { return Tensors{in[0].sum() * 2}; }, {x});
    EXPECT_EQ(operators_of(*captured.program.graph), "sum mul.Scalar") << to_string(captured.program);
    const auto text =
        error_text([&] { capture_local([](const Tensors& in) { return Tensors{in[0] * in[0].sum().item()}; }, {x}); });
    EXPECT_NE(text.find("[capture] what operators give must not depend on the values"), std::string::npos) << text;
    EXPECT_FALSE(is_capturing());
  });
}

} // namespace recorder_local_test

} // namespace weft::graph
