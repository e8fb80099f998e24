#include "bench/serve.h"

#include "weft/weft.h"

#include <ATen/ops/randn.h>

namespace {

using weft::Layout;

constexpr const char* kUsage =
    "redistribute_main: one rank of the benchmark 'redistribute', started by bench/run.py.\n"
    "Needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; reads '<calls> <rows> <case>' from stdin, where the case is\n"
    "one of S(0)->R, S(0)->S(1), P->S(0), P->R, and prints the microseconds of each call.\n";

constexpr int64_t kColumns = 1024;

weft::bench::TimedCall make_call(const weft::DeviceMesh& mesh, const std::string& name, int64_t rows) {
  const auto arrow = name.find("->");
  TORCH_CHECK_VALUE(arrow != std::string::npos, "[redistribute] a case must read 'S(0)->R', but got '", name, "'.");
  const auto layout = [](const std::string& placement) {
    return Layout::parse("{" + (placement == "P" ? "P(sum)" : placement) + "}");
  };
  const auto source =
      weft::TensorSpec::make(mesh, layout(name.substr(0, arrow)), {rows * mesh.size(), kColumns}, at::kFloat);
  const auto target = source->with(layout(name.substr(arrow + 2)));
  const auto local = at::randn(source->local_shape_and_offset().shape);
  return [=] { return weft::redistribute_local(local, source, target).wait(); };
}

} // namespace

int main(int argc, char** argv) {
  return weft::bench::serve(argc, argv, kUsage, [] {
    const auto world = weft::current_world();
    const auto mesh = weft::init_device_mesh("cpu", {world->size()});
    return weft::bench::Cases{
        .make = [=](const std::string& name, int64_t rows) { return make_call(mesh, name, rows); },
        .barrier = [=] { weft::barrier(mesh, {0}); }};
  });
}
