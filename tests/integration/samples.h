#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace weft::testing {

using Inputs = std::vector<at::Tensor>;
using Shapes = std::vector<std::vector<int64_t>>;

/// One call to be checked: what goes in, and how it is called.
struct Sample {
  std::string name; // "aten::mm [5,4] [4,3]"
  Inputs inputs;    // of floats where gradients are checked; integers and truth values too
  std::function<Inputs(const Inputs&)> call;
};

/// Between 0.1 and 0.9, where most functions are defined; the same every time.
at::Tensor sample_values(c10::IntArrayRef sizes, int64_t seed);

/// Samples by family, each in a file of its name: samples_<family>.cpp.
class Samples {
 public:
  /// A call with float inputs of these shapes; `call` takes them and gives one tensor.
  void add(const std::string& op, const Shapes& shapes, std::function<at::Tensor(const Inputs&)> call);
  /// A call with these inputs; it gives any number of tensors.
  void add_with(const std::string& op, Inputs inputs, std::function<Inputs(const Inputs&)> call);
  /// A call of this composite overload by its own rule, though dispatch would decompose it. `arguments` gives the first
  /// ones, by the inputs; others have their defaults.
  void add_composite(
      const std::string& op,
      Inputs inputs,
      std::function<std::vector<c10::IValue>(const Inputs&)> arguments);
  /// Calls of every operator that has a rule and no sample yet, made up from its schema.
  void add_made_up();

  const std::vector<Sample>& all() const {
    return samples_;
  }

 private:
  std::vector<Sample> samples_;
  std::set<std::string> ops_;
};

void add_matmul_samples(Samples& samples);
void add_view_samples(Samples& samples);
void add_reduction_samples(Samples& samples);
void add_pointwise_samples(Samples& samples);
void add_joining_samples(Samples& samples);
void add_indexing_samples(Samples& samples);
void add_creation_samples(Samples& samples);
void add_sorting_samples(Samples& samples);
void add_norm_samples(Samples& samples);
void add_embedding_samples(Samples& samples);
void add_loss_samples(Samples& samples);
void add_attention_samples(Samples& samples);
void add_convolution_samples(Samples& samples);
void add_spatial_samples(Samples& samples);
void add_composite_view_samples(Samples& samples);
void add_composite_pointwise_samples(Samples& samples);
void add_composite_layer_samples(Samples& samples);

/// All families, then what is made up.
std::vector<Sample> all_samples();

} // namespace weft::testing
