#include "tools/commands.h"
#include "weft/weft.h"

#include <ATen/ops/arange.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <iomanip>
#include <iostream>

namespace weft {

namespace {

/// The part of `whole` that this rank holds under `spec`.
at::Tensor local_part(const at::Tensor& whole, const TensorSpec& spec) {
  const auto block = spec.local_shape_and_offset();
  auto part = whole;
  for (int64_t d = 0; d < whole.dim(); ++d) {
    part = part.narrow(d, block.offset[d], block.shape[d]);
  }
  return part.contiguous();
}

/// Walks one tensor through several layouts; rank 0 reports.
void walk(const std::vector<Layout>& layouts) {
  const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
  const auto everybody = mesh.dims({"dp", "tp"});
  const auto whole = at::arange(8 * 16, at::kFloat).view({8, 16});
  const bool reports = mesh.world()->rank() == 0;
  auto spec = TensorSpec::make(mesh, layouts[0], whole.sizes(), at::kFloat);
  auto local = local_part(whole, *spec);
  if (reports) {
    std::cout << "A tensor of 8 x 16 on four ranks, threads of this process. The numbers in the boxes are ranks.\n\n"
              << draw(*spec);
  }
  for (size_t i = 1; i < layouts.size(); ++i) {
    const auto target = spec->with(layouts[i]);
    const CommLog log(mesh);
    barrier(mesh, everybody);
    const auto begin = std::chrono::steady_clock::now();
    local = redistribute_local(local, spec, target).wait();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    if (reports) {
      std::cout << "\n  " << plan(spec, target).to_string() << "\n  rank 0 received " << log.bytes() << " bytes, "
                << std::fixed << std::setprecision(0) << time.count() << " us with planning\n\n"
                << draw(*target);
    }
    spec = target;
    TORCH_CHECK(local.equal(local_part(whole, *spec)), "[demo] wrong values on rank ", mesh.world()->rank());
  }
  TORCH_CHECK(local.equal(whole), "[demo] wrong values at the end on rank ", mesh.world()->rank());
  barrier(mesh, everybody);
  if (reports) {
    std::cout << "\nEvery rank holds the right values after every step.\n";
  }
}

} // namespace

void add_demo_command(CLI::App& app) {
  app.add_subcommand("demo", "Walk a tensor through layouts on four ranks as threads, and draw each")->callback([] {
    const std::vector<Layout> layouts = {
        Layout::parse("{S(0), R}"), Layout::parse("{S(0), S(1)}"), Layout::parse("{R, S(0)}"), Layout::parse("{R, R}")};
    run_on_ranks(4, [&](int64_t /*rank*/) { walk(layouts); });
  });
}

} // namespace weft
