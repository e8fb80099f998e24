// Trains two models on a mesh, and beside it on one device: the losses are the same. Started as it is, the ranks are four
// threads; under torchrun they are its processes:
//
//   torchrun --no-python --nproc-per-node 2 build/dev/examples/train

#include "examples/models/decoder.h"
#include "examples/models/perceptron.h"
#include "examples/models/training.h"

#include <cmath>
#include <cstdio>
#include <functional>

namespace {

using namespace models;

constexpr int64_t kSteps = 20;
constexpr double kTolerance = 1e-5;

/// Trains `make_model(ParameterMaker)` on `make_batch(step)`, sharded and whole. The first rank prints.
template <class MakeModel>
void train(
    const char* title,
    const weft::DeviceMesh& mesh,
    const MakeModel& make_model,
    const std::function<Batch(int64_t step)>& make_batch) {
  const bool prints = mesh.world()->rank() == 0;
  Training sharded(make_model(ParameterMaker(mesh)));
  Training whole(make_model(ParameterMaker()));
  weft::CommLog log(mesh);

  if (prints) {
    std::printf("\n%s on %s\n  step   sharded      one device   difference\n", title, mesh.to_string().c_str());
  }
  for (int64_t step = 0; step < kSteps; ++step) {
    log.clear();
    const auto batch = make_batch(step);
    const auto loss = sharded.step(batch.distribute(mesh));
    const auto expected = whole.step(batch);
    if (prints) {
      std::printf("  %4ld   %.7f    %.7f    %.1e\n", step, loss, expected, std::abs(loss - expected));
    }
    TORCH_CHECK(
        std::abs(loss - expected) <= kTolerance, "[train] the loss of step ", step, " must be that of one device, ",
        expected, ", but got ", loss, ".");
  }
  if (prints) {
    std::printf("\n  parameters\n");
    for (const auto& parameter : sharded.model().named_parameters()) {
      std::printf("  %-33s %s\n", parameter.key().c_str(), weft::spec_of(parameter.value())->to_string().c_str());
    }
    std::printf("\n  communication of one step, as rank 0 received it\n");
    for (const auto& [collective, mesh_dims, operator_name, calls, bytes] : log.rows()) {
      std::printf(
          "  %-14s over %-6s for %-26s %3ld calls %7ld bytes\n", std::string(to_string(collective)).c_str(),
          mesh_dims.c_str(), operator_name.empty() ? "redistribute" : operator_name.c_str(), calls, bytes);
    }
  }
}

void train_both(const weft::DeviceMesh& mesh) {
  const PerceptronSizes perceptron;
  train(
      "A perceptron", mesh, [&](const ParameterMaker& make) { return std::make_shared<Perceptron>(perceptron, make); },
      [&](int64_t step) { return points(step, /*rows=*/32, perceptron.inputs); });
  const DecoderSizes decoder;
  train(
      "A decoder", mesh, [&](const ParameterMaker& make) { return std::make_shared<Decoder>(decoder, make); },
      [&](int64_t step) { return sequences(step, /*rows=*/8, decoder.length, decoder.vocabulary); });
}

} // namespace

int main() {
  try {
    const auto processes = weft::current_world()->size();
    if (processes > 1) {
      const int64_t tp = processes % 2 == 0 ? 2 : 1;
      train_both(weft::init_device_mesh("cpu", {processes / tp, tp}, {"dp", "tp"}));
    } else {
      weft::run_on_ranks(4, [](int64_t /*rank*/) { train_both(weft::init_device_mesh("cpu", {2, 2}, {"dp", "tp"})); });
    }
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "%s\n", error.what_without_backtrace());
    return 1;
  }
  return 0;
}
