#include "examples/models/initialize.h"
#include "examples/models/llama.h"
#include "examples/models/plans.h"
#include "examples/models/training.h"
#include "tools/commands.h"
#include "weft/nn/parallelize_module.h"
#include "weft/weft.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <iomanip>
#include <iostream>

namespace weft {

namespace {

using namespace models;

constexpr int64_t kSteps = 20;
constexpr int64_t kRows = 8;
constexpr double kTolerance = 1e-5;

/// What one step of training communicates, by its phases.
struct StepLog {
  std::vector<CommLog::Row> forward;
  std::vector<CommLog::Row> backward;
  std::vector<CommLog::Row> update;
};

double run_step(Training<LlamaImpl>& training, const Batch& batch, const DeviceMesh& mesh, StepLog& step) {
  CommLog log(mesh);
  const auto loss = training.loss(batch);
  step.forward = log.rows();
  log.clear();
  loss.backward();
  step.backward = log.rows();
  log.clear();
  training.update();
  step.update = log.rows();
  return loss.item<float>();
}

void print_head(const DeviceMesh& mesh, const LlamaSizes& sizes, const Batch& batch, LlamaImpl& model) {
  int64_t numbers = 0;
  for (const auto& parameter : model.parameters()) {
    numbers += parameter.numel();
  }
  std::cout << "A decoder (" << sizes.layers << " layers, " << sizes.heads << " heads, " << numbers
            << " parameters) is trained on " << mesh
            << ", whose four ranks are\nthreads of this process, and beside it "
            << "on one device. Batches are cut along dp, layers along tp; the numbers in\nthe boxes are ranks.\n\n"
            << "a batch of tokens\n"
            << draw(*spec_of(batch.inputs)) << "\nthe weights of the first layer's queries\n"
            << draw(*spec_of(model.named_parameters()["layers.0.attention.wq.weight"])) << "\n"
            << "  step     sharded  one device  difference\n";
}

void print_step(int64_t step, double loss, double expected, double first) {
  std::cout << std::setw(6) << step << std::fixed << std::setprecision(6) << std::setw(12) << loss << std::setw(12)
            << expected << std::scientific << std::setprecision(1) << std::setw(12) << std::abs(loss - expected)
            << "  ";
  for (auto i = std::lround(loss / first * 40); i > 0; --i) {
    std::cout << "▇";
  }
  std::cout << std::defaultfloat << std::setprecision(6) << std::endl;
}

void print_parameters(const LlamaImpl& model) {
  std::cout << "\nHow the parameters lie; gradients and the optimizer's moments lie alike:\n";
  for (const auto& parameter : model.named_parameters()) {
    const auto& spec = *spec_of(parameter.value());
    std::cout << "  " << std::left << std::setw(33) << parameter.key() << std::setw(10)
              << c10::str(parameter.value().sizes()) << std::setw(12) << spec.layout().to_string() << std::right
              << c10::str(c10::IntArrayRef(spec.local_shape_and_offset().shape)) << " on each rank\n";
  }
}

void print_phase(const char* name, const std::vector<CommLog::Row>& rows) {
  int64_t bytes = 0;
  for (const auto& row : rows) {
    bytes += row.bytes;
  }
  std::cout << "  " << name << ": " << (rows.empty() ? "nothing" : c10::str(bytes, " bytes")) << "\n";
  for (const auto& row : rows) {
    std::cout << "    " << std::left << std::setw(15) << to_string(row.collective) << std::setw(7) << row.mesh_dims
              << std::setw(36) << (row.operator_name.empty() ? "redistribute" : row.operator_name) << std::right
              << std::setw(3) << row.calls << (row.calls == 1 ? " call  " : " calls ") << std::setw(7) << row.bytes
              << " bytes\n";
  }
}

void train_beside_one_device() {
  const auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
  const bool prints = mesh.world()->rank() == 0;
  const LlamaSizes sizes;
  const auto batch_of = [&](int64_t step) { return sequences(step, kRows, sizes.length, sizes.vocabulary); };
  Llama model(sizes);
  initialize(*model);
  nn::parallelize_module(*model, mesh, llama_plan(), {.src_data_rank = std::nullopt});
  Training sharded(model.ptr());
  Llama plain(sizes);
  initialize(*plain);
  Training whole(plain.ptr());
  if (prints) {
    print_head(mesh, sizes, batch_of(0).distribute(mesh), sharded.model());
  }
  StepLog log;
  double first = 0;
  double farthest = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto batch = batch_of(step);
    const auto loss = run_step(sharded, batch.distribute(mesh), mesh, log);
    if (prints) { // one device is one of the ranks
      const auto expected = whole.step(batch);
      first = step == 0 ? expected : first;
      farthest = std::max(farthest, std::abs(loss - expected));
      print_step(step, loss, expected, first);
    }
  }
  if (prints) {
    print_parameters(sharded.model());
    std::cout << "\nWhat rank 0 received in the last step:\n";
    print_phase("forward", log.forward);
    print_phase("backward", log.backward);
    print_phase("optimizer", log.update);
    TORCH_CHECK(
        farthest <= kTolerance, "[demo] the losses must be those of one device to ", kTolerance, ", but differ by ",
        farthest, ".");
    std::cout << "\nThe losses are those of one device to " << farthest << ".\n";
  }
}

} // namespace

void add_demo_command(CLI::App& app) {
  app.add_subcommand("demo", "Train a decoder on four ranks as threads, and beside it on one device")->callback([] {
    run_on_ranks(4, [](int64_t /*rank*/) { train_beside_one_device(); });
  });
}

} // namespace weft
