#pragma once

#include "weft/graph/deploy/manifest.h"
#include "weft/graph/deploy/safetensors.h"

namespace weft::graph {

/// Runs a program that lies on ranks with whole tensors: they are cut as the manifest says, and what comes out is put
/// together.
///
///   auto run = run_on_threads(programs, manifest);          // or run_as_process(program, manifest)
///   at::Tensor y = run->run({{"x", x}})[0];
class WholeRun {
 public:
  virtual ~WholeRun() = default;

  /// The user inputs by name, numbers as tensors of no dims; gives the user outputs in order, an undefined tensor for
  /// None and for a text.
  /// Raises for names that are missing or unknown, and for tensors that the program is not for.
  std::vector<at::Tensor> run(const NamedTensors& inputs);
  virtual void manual_seed(uint64_t seed) = 0;

 protected:
  explicit WholeRun(Manifest manifest) : manifest_(std::move(manifest)) {}

  const Manifest& manifest() const {
    return manifest_;
  }

 private:
  virtual std::vector<at::Tensor> run_checked(const NamedTensors& inputs) = 0;

  Manifest manifest_;
};

/// All ranks as threads of this process; one program alone where it is not sharded.
std::unique_ptr<WholeRun> run_on_threads(std::vector<std::shared_ptr<const Program>> programs, Manifest manifest);

/// This process is one rank of current_world(), which has the size of the manifest's mesh, and every rank gets the same
/// inputs and all outputs.
std::unique_ptr<WholeRun> run_as_process(std::shared_ptr<const Program> program, Manifest manifest);

} // namespace weft::graph
