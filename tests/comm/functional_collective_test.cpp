#include "weft/comm/functional_collective.h"

#include "tests/support/on_meshes.h"
#include "weft/comm/communicator.h"

namespace weft {

namespace functional_collective_test {
using namespace weft::testing;

at::Tensor run(const DeviceMesh& mesh, const char* op, const std::vector<c10::IValue>& arguments) {
  auto group = Communicator::of(mesh).group(mesh, {0});
  auto started = find_functional_collective(op)->start(*group, arguments[0].toTensor(), arguments);
  started.pending.wait();
  return started.output;
}

TEST(FunctionalCollective, GivesWhatTorchDefines) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = at::arange(4, at::kFloat).view({2, 2}) + static_cast<double>(mesh.rank(0));
    const auto other = x + (mesh.rank(0) == 0 ? 1 : -1);
    const auto both = mesh.rank(0) == 0 ? at::cat({x, other}) : at::cat({other, x});
    expect_equal(run(mesh, "_c10d_functional::all_reduce", {x, "sum", "a"}), x + other);
    expect_equal(run(mesh, "_c10d_functional::all_gather_into_tensor", {x, 2, "a"}), both);
    expect_equal(
        run(mesh, "_c10d_functional::reduce_scatter_tensor", {x, "max", 2, "a"}),
        at::max(x, other).narrow(0, mesh.rank(0), 1));
    expect_equal(run(mesh, "_c10d_functional::broadcast", {x, 1, "a"}), both.narrow(0, 2, 2));
    const std::vector<int64_t> one{1, 1};
    expect_equal(
        run(mesh, "_c10d_functional::all_to_all_single", {x, one, one, "a"}),
        both.view({2, 2, 2}).select(1, mesh.rank(0)));
  });
}

TEST(FunctionalCollective, IsFoundByItsName) {
  EXPECT_EQ(find_functional_collective("_c10d_functional::all_reduce")->name, std::string("all_reduce"));
  EXPECT_EQ(find_functional_collective("_c10d_functional::wait_tensor"), nullptr);
  EXPECT_EQ(find_functional_collective("c10d::all_reduce"), nullptr);
  EXPECT_NE(functional_collective_names().find("all_reduce, all_reduce_coalesced, "), std::string::npos);
}

} // namespace functional_collective_test

} // namespace weft
