#pragma once

#include "weft/graph/deploy/manifest.h"
#include "weft/graph/deploy/safetensors.h"

namespace weft::graph {

/// Runs a sharded program with global tensors: inputs are sharded as the manifest says, and outputs are gathered.
///
///   auto run = run_on_threads(programs, manifest);          // or run_as_process(program, manifest)
///   at::Tensor y = run->run({{"x", x}})[0];
class GlobalRun {
 public:
  virtual ~GlobalRun() = default;

  /// Takes the user inputs by name, numbers as tensors of no dims, and returns the user outputs in order, an undefined
  /// tensor for None and for a text. Raises for missing or unknown names, and for tensors that do not fit the program.
  std::vector<at::Tensor> run(const NamedTensors& inputs);
  virtual void manual_seed(uint64_t seed) = 0;

 protected:
  explicit GlobalRun(Manifest manifest) : manifest_(std::move(manifest)) {}

  const Manifest& manifest() const {
    return manifest_;
  }

 private:
  virtual std::vector<at::Tensor> run_checked(const NamedTensors& inputs) = 0;

  Manifest manifest_;
};

/// Runs all ranks as threads of this process, or the only program if it is not sharded.
std::unique_ptr<GlobalRun> run_on_threads(std::vector<std::shared_ptr<const Program>> programs, Manifest manifest);

/// This process is one rank of current_world(), which has the size of the manifest's mesh. Every rank gets the same
/// inputs and all outputs.
std::unique_ptr<GlobalRun> run_as_process(std::shared_ptr<const Program> program, Manifest manifest);

} // namespace weft::graph
