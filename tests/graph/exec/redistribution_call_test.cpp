#include "weft/graph/exec/redistribution_call.h"

#include "tests/support/on_meshes.h"
#include "weft/graph/exec/executor.h"
#include "weft/graph/ir/parse.h"
#include "weft/tensor/distribute.h"

namespace weft::graph {

namespace redistribution_call_test {
using namespace weft::testing;

/// From one layout to another and doubled; the local sizes are those of rank 0.
std::string program_text(
    const std::string& before,
    const std::string& after,
    const std::string& source,
    const std::string& target) {
  return "program @ mesh(a=2)\ninput %x: f32[" + before + "] = user\n  %y: f32[" + after +
      "] = weft::redistribute_local(%x, [5,2], \"" + source + "\", \"" + target + "\")\n  %z: f32[" + after +
      "] = aten::mul.Scalar(%y, 2)\noutput %z = user\noutput %y = user\n";
}

TEST(RedistributionCall, GivesTheLocalTensorOfTheTarget) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({5, 2});
    const auto check = [&](const Layout& source, const Layout& target) {
      const auto sizes = [&](const Layout& layout) {
        const auto local = part_of(global, mesh, layout);
        return std::to_string(local.size(0)) + "," + std::to_string(local.size(1));
      };
      const auto program = std::make_shared<const Program>(
          parse_program(program_text(sizes(source), sizes(target), source.to_string(), target.to_string())));
      Executor executor(program, mesh);
      for (int run = 0; run < 2; ++run) {
        const auto outputs = executor.run({part_of(global + run, mesh, source)});
        const auto expected = part_of(global + run, mesh, target);
        expect_equal(outputs[0].toTensor(), expected * 2);
        expect_equal(outputs[1].toTensor(), expected);
      }
    };
    check({Shard(0)}, {Replicate()});
    check({Shard(0)}, {Shard(1)});
    check({Replicate()}, {Shard(0)});
  });
}

} // namespace redistribution_call_test

} // namespace weft::graph
