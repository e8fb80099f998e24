#include "weft/graph/exec/collective_call.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/process_ranks.h"
#include "tests/support/program_builder.h"
#include "weft/comm/comm_log.h"
#include "weft/graph/exec/executor.h"

#include <ATen/ATen.h>

namespace weft::graph {

namespace collective_call_test {

using namespace weft::testing;

using Build = std::function<void(ProgramBuilder& build, Value* x)>;
using Define = std::function<at::Tensor(const std::vector<at::Tensor>& inputs, int64_t member)>;

/// A rank's operand; some values differ between ranks, and all are integers, so that sums are exact.
at::Tensor input_of(int64_t rank) {
  return (whole_numbers({6, 2}) * (rank + 1)).remainder(7) + rank;
}

std::shared_ptr<const Program> program_on(const DeviceMesh& mesh, const Build& add_nodes) {
  ProgramBuilder build;
  add_nodes(build, build.input("x", at::kFloat, {6, 2}));
  build.program().mesh = DeviceMesh::parse(mesh.to_string());
  return build.finish();
}

std::vector<at::Tensor> run_on(const DeviceMesh& mesh, const Build& add_nodes) {
  Executor executor(program_on(mesh, add_nodes));
  std::vector<at::Tensor> tensors;
  for (const auto& output : executor.run({input_of(mesh.world()->rank())})) {
    tensors.push_back(output.toTensor());
  }
  return tensors;
}

Value* waited(ProgramBuilder& build, const std::string& collective, ProgramBuilder::Parts arguments) {
  return build.call(
      "_c10d_functional::wait_tensor", {build.call("_c10d_functional::" + collective, std::move(arguments))});
}

/// Runs one collective and compares with its definition.
void check(const DeviceMesh& mesh, const std::string& group, const Build& add_nodes, const Define& define) {
  const auto dims = group == "a" ? MeshDims{0} : MeshDims{0, 1};
  const auto ranks = mesh.ranks_along(dims);
  std::vector<at::Tensor> inputs;
  for (const auto rank : ranks) {
    inputs.push_back(input_of(rank));
  }
  const auto member = std::find(ranks.begin(), ranks.end(), mesh.world()->rank()) - ranks.begin();
  for (const auto& output : run_on(mesh, add_nodes)) {
    expect_equal(output, define(inputs, member));
  }
}

void check_reductions(const DeviceMesh& mesh, const std::string& group, int64_t size) {
  const std::map<std::string, std::function<at::Tensor(const at::Tensor&)>> reductions = {
      {"sum", [](const at::Tensor& all) { return all.sum(0); }},
      {"avg", [](const at::Tensor& all) { return all.mean(0); }},
      {"max", [](const at::Tensor& all) { return all.amax(0); }},
      {"min", [](const at::Tensor& all) { return all.amin(0); }},
      {"product", [](const at::Tensor& all) { return all.prod(0); }},
  };
  for (const auto& [name, reduce] : reductions) {
    SCOPED_TRACE(name);
    const auto op = c10::IValue(name);
    check(
        mesh, group,
        [&](auto& build, auto* x) {
          build.output(waited(build, "all_reduce", {x, op, group}));
          for (auto* each :
               build.call_list("_c10d_functional::all_reduce_coalesced", {std::vector{x, x}, op, group}, 2)) {
            build.output(build.call("_c10d_functional::wait_tensor", {each}));
          }
        },
        [&](const auto& inputs, int64_t /*member*/) { return reduce(at::stack(inputs)); });
    check(
        mesh, group,
        [&](auto& build, auto* x) {
          build.output(waited(build, "reduce_scatter_tensor", {x, op, size, group}));
          const auto list = "_c10d_functional::reduce_scatter_tensor_coalesced";
          for (auto* each : build.call_list(list, {std::vector{x, x}, op, size, group}, 2)) {
            build.output(build.call("_c10d_functional::wait_tensor", {each}));
          }
        },
        [&](const auto& inputs, int64_t member) { return reduce(at::stack(inputs)).chunk(size)[member]; });
  }
}

void check_moves(const DeviceMesh& mesh, const std::string& group, int64_t size) {
  check(
      mesh, group,
      [&](auto& build, auto* x) {
        build.output(waited(build, "all_gather_into_tensor", {x, size, group}));
        const auto list = "_c10d_functional::all_gather_into_tensor_coalesced";
        for (auto* each : build.call_list(list, {std::vector{x, x}, size, group}, 2)) {
          build.output(build.call("_c10d_functional::wait_tensor", {each}));
        }
      },
      [](const auto& inputs, int64_t /*member*/) { return at::cat(inputs); });
  check(
      mesh, group, [&](auto& build, auto* x) { build.output(waited(build, "broadcast", {x, size - 1, group})); },
      [](const auto& inputs, int64_t /*member*/) { return inputs.back(); });
  check(
      mesh, group,
      [&](auto& build, auto* x) {
        const std::vector<int64_t> each(size, 6 / size);
        build.output(waited(build, "all_to_all_single", {x, each, each, group}));
      },
      [&](const auto& inputs, int64_t member) {
        std::vector<at::Tensor> arrived;
        for (const auto& input : inputs) {
          arrived.push_back(input.chunk(size)[member]);
        }
        return at::cat(arrived);
      });
}

void check_all(const DeviceMesh& mesh) {
  for (const auto& group : mesh.ndim() == 1 ? std::vector<std::string>{"a"} : std::vector<std::string>{"a", "a,b"}) {
    SCOPED_TRACE(group);
    const auto size = group == "a" ? mesh.size(0) : mesh.size();
    if (6 % size == 0) {
      check_reductions(mesh, group, size);
      check_moves(mesh, group, size);
    }
  }
}

TEST(CollectiveCall, GivesWhatTorchDefinesOnThreads) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{1}, {2}, {3}, {2, 3}}) {
    on_mesh(shape, check_all);
  }
}

RANK_ROLE(checks_collectives) {
  check_all(init_device_mesh("cpu", {current_world()->size()}, {"a"}));
  say(::testing::Test::HasFailure() ? "some checks fail" : "all checks hold");
}

TEST(CollectiveCall, GivesWhatTorchDefinesOnProcesses) {
  for (const int64_t size : {2, 3}) {
    const auto ranks = run_process_ranks("checks_collectives", size);
    for (const auto& rank : ranks) {
      EXPECT_TRUE(rank.has_line("all checks hold")) << describe(ranks);
    }
  }
}

TEST(CollectiveCall, MovesSlicesOfDifferentSizes) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    // Member 0 keeps one row and sends five; member 1 sends two and keeps four.
    const std::vector<std::vector<int64_t>> sends = {{1, 5}, {2, 4}};
    const auto rank = mesh.world()->rank();
    const std::vector<int64_t> comes = {sends[0][rank], sends[1][rank]};
    const auto outputs = run_on(mesh, [&](auto& build, auto* x) {
      // The sizes as numbers of the program.
      auto* first = build.call("_operator.mul", {build.call("aten::sym_size.int", {x, 1}), 0});
      auto* known = build.call("_operator.add", {first, sends[rank][0]});
      build.output(waited(build, "all_to_all_single", {x, comes, {known, sends[rank][1]}, "a"}));
    });
    const auto rows = rank == 0 ? at::cat({input_of(0).narrow(0, 0, 1), input_of(1).narrow(0, 0, 2)})
                                : at::cat({input_of(0).narrow(0, 1, 5), input_of(1).narrow(0, 2, 4)});
    expect_equal(outputs[0], rows);
  });
}

TEST(CollectiveCall, IsUnderWayUntilItIsWaitedFor) {
  // Every rank starts one collective with a neighbour that starts another one first: a rank that waited for
  // the start would wait for ever.
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto coordinate = mesh.coordinate();
    const bool a_first = coordinate[0] == coordinate[1];
    const auto outputs = run_on(mesh, [&](auto& build, auto* x) {
      const auto start = [&](const char* group) {
        return build.call("_c10d_functional::all_reduce", {x, "sum", group});
      };
      auto* first = start(a_first ? "a" : "b");
      auto* twice = build.call("aten::add.Tensor", {x, x});
      auto* second = start(a_first ? "b" : "a");
      auto* a = build.call("_c10d_functional::wait_tensor", {a_first ? first : second});
      auto* b = build.call("_c10d_functional::wait_tensor", {a_first ? second : first});
      build.output(build.call("aten::add.Tensor", {twice, build.call("aten::sub.Tensor", {a, b})}));
    });
    const auto rank = mesh.world()->rank();
    const auto other_a = input_of((rank + 2) % 4);
    const auto other_b = input_of(rank ^ 1);
    expect_equal(outputs[0], input_of(rank) * 2 + other_a - other_b);
  });
}

TEST(CollectiveCall, IsWaitedForBeforeItIsRead) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto outputs = run_on(mesh, [](auto& build, auto* x) {
      auto* read = build.call("_c10d_functional::all_reduce", {x, "sum", "a"});
      auto* returned = build.call("_c10d_functional::all_reduce", {x, "sum", "a"});
      build.call("_c10d_functional::all_reduce", {x, "sum", "a"}); // without uses
      build.output(build.call("aten::mul.Tensor", {read, read}));
      build.output(returned);
      build.output(build.call("_c10d_functional::wait_tensor", {build.call("_c10d_functional::wait_tensor", {read})}));
    });
    const auto sum = input_of(0) + input_of(1);
    expect_equal(outputs[0], sum * sum);
    expect_equal(outputs[1], sum);
    expect_equal(outputs[2], sum);
  });
}

TEST(CollectiveCall, IsWaitedForBeforeItsInputIsChanged) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto outputs = run_on(mesh, [](auto& build, auto* x) {
      auto* own = build.call("aten::clone", {x});
      auto* sum = build.call("_c10d_functional::all_gather_into_tensor", {own, 2, "a"});
      build.node("aten::zero_", {build.call("aten::select.int", {own, 0, 0})});
      build.output(build.call("_c10d_functional::wait_tensor", {sum}));
      build.output(own);
    });
    expect_equal(outputs[0], at::cat({input_of(0), input_of(1)}));
    expect_equal(outputs[1][0], at::zeros({2}));
  });
}

TEST(CollectiveCall, IsWaitedForBeforeABatchNormUpdatesTheStatisticsThatItReads) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto outputs = run_on(mesh, [](auto& build, auto* x) {
      const auto zeros = [&] { return build.call("aten::zeros", {std::vector<int64_t>{2}}); };
      auto* mean = zeros();
      auto* sums = build.call("_c10d_functional::all_gather_into_tensor", {mean, 2, "a"});
      build.call("aten::batch_norm", {x, c10::IValue(), c10::IValue(), mean, zeros(), true, 1.0, 1e-5, false});
      build.output(build.call("_c10d_functional::wait_tensor", {sums}));
      build.output(mean);
    });
    expect_equal(outputs[0], at::zeros({4}));
    EXPECT_FALSE(at::equal(outputs[1], at::zeros({2})));
  });
}

TEST(CollectiveCall, IsLogged) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    Executor executor(
        program_on(mesh, [](auto& build, auto* x) { build.output(waited(build, "all_reduce", {x, "sum", "a"})); }),
        mesh);
    const CommLog log(mesh);
    executor.run({input_of(0)});
    EXPECT_EQ(log.calls(), 1);
    EXPECT_EQ(log.bytes(), 48);
  });
}

TEST(CollectiveCall, AnErrorOnOneRankIsOneOnAll) {
  const auto start = std::chrono::steady_clock::now();
  const auto text = error_text([] {
    run_on_ranks(2, [](int64_t rank) {
      const auto mesh = init_device_mesh("cpu", {2}, {"a"});
      Executor executor(program_on(mesh, [](auto& build, auto* x) {
        auto* table = build.parameter("table", at::ones({4}));
        auto* sum = build.call("_c10d_functional::all_reduce", {x, "sum", "a"});
        auto* index = build.call("aten::_to_copy", {build.call("aten::select.int", {x, 1, 0}), int64_t{4}});
        auto* found = build.call("aten::index_select", {table, 0, index});
        auto* again = waited(build, "all_reduce", {found, "sum", "a"});
        build.output(build.call("_c10d_functional::wait_tensor", {sum}));
        build.output(again);
      }));
      const auto input = at::zeros({6, 2});
      executor.run({rank == 0 ? input : input + 100});
    });
  });
  expect_contains(text, "index out of range");
  expect_contains(text, "while running aten::index_select for %index_select");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

/// Gathers x, multiplies it by weights and scatters the product: the gathered tensor has 6 rows.
void add_fused(ProgramBuilder& build, Value* x, const std::string& group) {
  auto* up = build.parameter("up", whole_numbers({2, 3}));
  auto* down = build.parameter("down", whole_numbers({3, 2}));
  const auto none = c10::IValue();
  const auto outputs = build.call_list(
      "weft::all_gather_matmul", {x, {up, up}, {none, none}, int64_t{0}, none, int64_t{2}, true, c10::IValue(group)},
      3);
  build.output(outputs[2]);
  build.output(build.call(
      "weft::matmul_reduce_scatter",
      {{outputs[0], outputs[1]}, {down, down}, none, "sum", int64_t{0}, int64_t{2}, c10::IValue(group)}));
}

void check_fused(const DeviceMesh& mesh, const std::string& group, const std::vector<int64_t>& ranks) {
  const auto outputs = run_on(mesh, [&](auto& build, auto* x) { add_fused(build, x, group); });
  std::vector<at::Tensor> inputs;
  for (const auto rank : ranks) {
    inputs.push_back(input_of(rank));
  }
  expect_equal(outputs.at(0), at::cat(inputs));
  const auto product = input_of(mesh.world()->rank()).matmul(whole_numbers({2, 3})).matmul(whole_numbers({3, 2}));
  expect_equal(outputs.at(1), product * 2 * static_cast<int64_t>(ranks.size()));
}

TEST(CollectiveCall, MatmulsThatOverlapACollectiveRunOnTheGroupsOfTheMesh) {
  on_mesh({3}, [](const DeviceMesh& mesh) { check_fused(mesh, "a", {0, 1, 2}); });
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    check_fused(mesh, "b", mesh.ranks_along({1}));
    check_fused(mesh, "a,b", {0, 1, 2, 3});
  });
}

RANK_ROLE(runs_fused) {
  check_fused(init_device_mesh("cpu", {2}, {"a"}), "a", {0, 1});
  say("done");
}

TEST(CollectiveCall, MatmulsThatOverlapACollectiveRunOnProcesses) {
  for (const auto& rank : run_process_ranks("runs_fused", 2)) {
    EXPECT_TRUE(rank.has_line("done")) << rank.output;
  }
}

TEST(CollectiveCall, ChecksTheProgram) {
  const auto refused = [&](const Build& add_nodes) {
    return error_text([&] { on_mesh({2}, [&](const DeviceMesh& each) { run_on(each, add_nodes); }); });
  };
  expect_contains(
      refused([](auto& build, auto* x) { build.output(waited(build, "all_gather_into_tensor", {x, 4, "a"})); }),
      "[Executor] _c10d_functional::all_gather_into_tensor is for 4 ranks along 'a', but mesh(a=2) has 2.");
  expect_contains(
      refused([](auto& build, auto* x) { build.output(waited(build, "all_reduce", {x, "sum", "tp"})); }), "'tp'");
  expect_contains(refused([](auto& build, auto* x) { add_fused(build, x, "tp"); }), "'tp'");
  expect_contains(
      refused([](auto& build, auto* x) { build.output(build.call("_c10d_functional::all_reduce_", {x, "sum", "a"})); }),
      "[Executor] a collective must be one of _c10d_functional:: all_reduce, ");
  expect_contains(
      refused([](auto& build, auto* x) {
        auto* row = build.call("aten::slice.Tensor", {x, 0, 0, 5});
        build.output(waited(build, "reduce_scatter_tensor", {row, "sum", 2, "a"}));
      }),
      "[reduce_scatter_tensor] dim 0 must be a multiple of the 2 members of group a (ranks 0,1), but got [5, 2].");
  expect_contains(
      refused([](auto& build, auto* x) {
        build.output(
            waited(build, "all_to_all_single", {x, std::vector<int64_t>{3, 3}, std::vector<int64_t>{3, 2}, "a"}));
      }),
      "those of the input adding up to its dim 0, but got [3, 3] and [3, 2] for [6, 2].");
  expect_contains(
      refused([](auto& build, auto* x) { build.output(waited(build, "broadcast", {x, 2, "a"})); }),
      "[broadcast] a member of group a (ranks 0,1) is required, in [0, 2), but got 2.");
}

TEST(CollectiveCall, NeedsAMesh) {
  ProgramBuilder build;
  auto* x = build.input("x", at::kFloat, {6, 2});
  build.output(waited(build, "all_reduce", {x, "sum", "a"}));
  const auto program = build.finish();
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { Executor executor(program); }),
      "[Executor] a program with collectives needs a mesh, but got none for _c10d_functional::all_reduce. "
      "Set the program's mesh.");
  ProgramBuilder fused;
  add_fused(fused, fused.input("x", at::kFloat, {6, 2}), "a");
  const auto fused_program = fused.finish();
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { Executor executor(fused_program); }),
      "[Executor] a program with collectives needs a mesh, but got none for weft::all_gather_matmul. "
      "Set the program's mesh.");
}

} // namespace collective_call_test

} // namespace weft::graph
