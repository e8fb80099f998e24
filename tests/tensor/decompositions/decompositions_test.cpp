#include "weft/tensor/decompositions/decompositions.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/explain.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/function.h>

namespace weft {

namespace decompositions_test {
using namespace weft::testing;

std::vector<std::string> operators_of(const ExplainLog& log) {
  std::vector<std::string> names;
  for (const auto& call : log.calls()) {
    names.push_back(call->op);
  }
  return names;
}

TEST(Decompositions, EveryFamilyIsOfOperatorsThatThereAre) {
  Decompositions all;
  add_moment_decompositions(all);
  add_norm_decompositions(all);
  add_loss_decompositions(all);
  add_comparison_decompositions(all);
  EXPECT_FALSE(all.empty());
  for (const auto& [name, decomposition] : all) {
    const auto dot = name.find('.');
    const auto op = c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
    EXPECT_TRUE(op.has_value()) << name;
    EXPECT_EQ(find_decomposition(name)->applies, decomposition.applies) << name;
  }
}

TEST(Decompositions, RunsAsOtherOperatorsWhereItApplies) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const ExplainLog log;
    const auto columns = x.mean(0);
    EXPECT_EQ(operators_of(log), (std::vector<std::string>{"aten::sum.dim_IntList", "aten::div.Scalar"}));
    EXPECT_EQ(spec_of(columns)->layout(), Layout{Partial()}) << "nothing is moved before it is needed";
    const ExplainLog along_rows;
    x.mean(1);
    EXPECT_EQ(operators_of(along_rows), std::vector<std::string>{"aten::mean.dim"});
  });
}

TEST(Decompositions, IsBelowAutograd) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({5, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)}).set_requires_grad(true);
    const auto mean = x.mean();
    EXPECT_NE(mean.grad_fn()->name().find("MeanBackward"), std::string::npos) << mean.grad_fn()->name();
    mean.backward();
    expect_equal(full_tensor(x.grad()), at::full({5, 2}, 0.1F));
  });
}

} // namespace decompositions_test

} // namespace weft
