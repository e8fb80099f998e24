// Trains a decoder on a mesh, and the same decoder on one device: the losses are the same. The models are ordinary LibTorch code;
// what is parallel about them is said by the plans in examples/plans. Started as it is, the ranks are threads; under torchrun
// they are its processes:
//
//   build/dev/examples/train --model llama --mesh dp=2,tp=2 --sequence-parallel
//   torchrun --no-python --nproc-per-node 2 build/dev/examples/train --mesh tp=2
//   build/dev/examples/train --steps 10 --save run/step_10 && build/dev/examples/train --mesh tp=4 --resume run/step_10

#include "examples/models/gpt2.h"
#include "examples/models/initialize.h"
#include "examples/models/llama.h"
#include "examples/models/plans.h"
#include "examples/models/training.h"
#include "weft/nn/parallelize_module.h"
#include "weft/nn/state.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace {

using namespace models;

constexpr double kTolerance = 1e-4;
constexpr int64_t kRows = 8;

constexpr const char* kUsage =
    "usage: train [--model llama|gpt2] [--mesh dp=N,tp=M] [--sequence-parallel] [--plan FILE] [--steps N]\n"
    "             [--save FOLDER] [--resume FOLDER] [--device cpu|cuda]\n\n"
    "  --model NAME          llama (default) or gpt2\n"
    "  --mesh DIMS           tp, which shards the model, and dp, which shards the batch; default dp=2,tp=2\n"
    "  --sequence-parallel   shard norms and the activations between layers by the sequence\n"
    "  --plan FILE           a plan of one's own instead of the model's\n"
    "  --steps N             of training; default 20\n"
    "  --save FOLDER         save a checkpoint after the last step\n"
    "  --resume FOLDER       continue from a checkpoint, which any other mesh may have saved\n"
    "  --device TYPE         cpu (default) or cuda; ranks that are threads may share one GPU\n\n"
    "The ranks are threads of this process; under torchrun they are its processes.\n";

struct Options {
  std::string model = "llama";
  std::vector<int64_t> mesh_shape = {2, 2};
  std::vector<std::string> mesh_names = {"dp", "tp"};
  bool sequence_parallel = false;
  std::string plan;
  int64_t steps = 20;
  std::string save;
  std::string resume;
  std::string device = "cpu";
  bool help = false;
};

int64_t positive(const std::string& option, std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  TORCH_CHECK_VALUE(
      error == std::errc() && end == text.data() + text.size() && number > 0, "[train] ", option,
      " requires a positive number, but got \"", text, "\".");
  return number;
}

void take_mesh(const std::string& text, Options& options) {
  options.mesh_shape.clear();
  options.mesh_names.clear();
  for (size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const auto part = text.substr(begin, end - begin);
    TORCH_CHECK_VALUE(
        part.starts_with("dp=") || part.starts_with("tp="),
        "[train] --mesh requires dims called dp and tp, as in dp=2,tp=2, but got \"", text, "\".");
    options.mesh_names.push_back(part.substr(0, 2));
    options.mesh_shape.push_back(positive("--mesh", std::string_view(part).substr(3)));
    begin = end + 1;
  }
  TORCH_CHECK_VALUE(
      text.find("tp=") != std::string::npos, "[train] the plans are for the mesh dim tp, but got \"", text,
      "\". Add tp=1.");
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto& option = arguments[i];
    const auto value = [&]() -> const std::string& {
      TORCH_CHECK_VALUE(i + 1 < arguments.size(), "[train] ", option, " requires a value, but got none.");
      return arguments[++i];
    };
    if (option == "--help" || option == "-h") {
      options.help = true;
    } else if (option == "--model") {
      options.model = value();
    } else if (option == "--mesh") {
      take_mesh(value(), options);
    } else if (option == "--sequence-parallel") {
      options.sequence_parallel = true;
    } else if (option == "--plan") {
      options.plan = value();
    } else if (option == "--steps") {
      options.steps = positive(option, value());
    } else if (option == "--save") {
      options.save = value();
    } else if (option == "--resume") {
      options.resume = value();
    } else if (option == "--device") {
      options.device = value();
    } else {
      TORCH_CHECK_VALUE(false, "[train] an option is required, but got \"", option, "\". --help lists them.");
    }
  }
  TORCH_CHECK_VALUE(
      options.model == "llama" || options.model == "gpt2", "[train] --model requires llama or gpt2, but got \"",
      options.model, "\".");
  TORCH_CHECK_VALUE(
      options.plan.empty() || !options.sequence_parallel,
      "[train] --plan and --sequence-parallel both say which plan is meant. Give one of them.");
  options.plan = options.plan.empty() ? plan_file(options.model, options.sequence_parallel) : options.plan;
  return options;
}

void print_parameters(const torch::nn::Module& model) {
  std::printf("\n  parameters\n");
  for (const auto& parameter : model.named_parameters()) {
    std::printf("  %-33s %s\n", parameter.key().c_str(), weft::spec_of(parameter.value())->to_string().c_str());
  }
}

void print_communication(const std::vector<weft::CommLog::Row>& rows) {
  std::printf("\n  communication of one step, as rank 0 received it\n");
  for (const auto& [collective, mesh_dims, operator_name, calls, bytes] : rows) {
    std::printf(
        "  %-14s over %-6s for %-26s %3ld calls %7ld bytes\n", std::string(to_string(collective)).c_str(),
        mesh_dims.c_str(), operator_name.empty() ? "the plan" : operator_name.c_str(), calls, bytes);
  }
}

/// The step to begin with: that of the checkpoint, if there is one.
template <class Model>
int64_t resumed(const Options& options, Training<Model>& training) {
  weft::State values = {{"step", 0}};
  if (!options.resume.empty()) {
    weft::nn::load_training_state(training.model(), training.optimizer(), values, options.resume);
  }
  const auto step = values.at("step").toInt();
  TORCH_CHECK_VALUE(
      step < options.steps, "[train] ", options.resume, " has made ", step, " steps already. Give more --steps.");
  return step;
}

/// The first rank trains the same model on one device, prints the losses and compares them.
template <class Model>
void train(const Options& options, const weft::DeviceMesh& mesh) {
  const auto batch = [](int64_t step) { return sequences(step, kRows, /*length=*/16, /*vocabulary=*/64); };
  Model model;
  initialize(*model);
  weft::nn::parallelize_module(*model, mesh, weft::nn::ParallelPlan::load(options.plan));

  Training sharded(model.ptr());
  weft::CommLog log(mesh);
  const auto first = resumed(options, sharded);
  std::vector<double> losses;
  for (int64_t step = first; step < options.steps; ++step) {
    log.clear();
    losses.push_back(sharded.step(batch(step).distribute(mesh)));
  }
  const auto communication = log.rows();
  if (!options.save.empty()) {
    const auto state = weft::nn::training_state(sharded.model(), sharded.optimizer(), {{"step", options.steps}});
    weft::save(state, options.save);
  }
  if (mesh.world()->rank() != 0) {
    return;
  }
  const torch::Device device(options.device);
  Model plain;
  initialize(*plain);
  plain->to(device);
  Training single(plain.ptr());
  std::printf(
      "%s on %s, %s\n  step   sharded      one device   difference\n", options.model.c_str(), mesh.to_string().c_str(),
      options.plan.c_str());
  double farthest = 0;
  for (int64_t step = 0; step < options.steps; ++step) {
    const auto expected = single.step(batch(step).to(device)); // of a training that was never interrupted
    if (step < first) {
      continue;
    }
    const auto difference = std::abs(losses[step - first] - expected);
    farthest = std::isnan(difference) ? difference : std::max(farthest, difference);
    std::printf("  %4ld   %.7f    %.7f    %.1e\n", step, losses[step - first], expected, difference);
  }
  print_parameters(*model);
  print_communication(communication);
  TORCH_CHECK(
      farthest <= kTolerance, "[train] the losses must be those of one device to ", kTolerance, ", but differ by ",
      farthest, ".");
}

void run(const Options& options) {
  const auto on_rank = [&] {
    const auto mesh = weft::init_device_mesh(options.device, options.mesh_shape, options.mesh_names);
    options.model == "llama" ? train<Llama>(options, mesh) : train<Gpt2>(options, mesh);
  };
  const auto ranks = c10::multiply_integers(options.mesh_shape);
  const auto processes = weft::current_world()->size();
  TORCH_CHECK_VALUE(
      processes == 1 || processes == ranks, "[train] the mesh must have as many ranks as there are processes, ",
      processes, ", but has ", ranks, ". Use --mesh.");
  if (processes > 1) {
    on_rank();
  } else {
    weft::run_on_ranks(ranks, [&](int64_t /*rank*/) { on_rank(); });
  }
}

} // namespace

int main(int argc, char** argv) {
  try {
    const auto options = parse({argv + 1, argv + argc});
    options.help ? static_cast<void>(std::fputs(kUsage, stdout)) : run(options);
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "%s\n", error.what_without_backtrace());
    return 1;
  }
  return 0;
}
