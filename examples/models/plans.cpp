#include "examples/models/plans.h"

namespace models {

std::string plan_file(const std::string& model, bool sequence_parallel) {
  return std::string(WEFT_EXAMPLE_PLANS) + "/" + model + (sequence_parallel ? "_sequence" : "") + ".json";
}

weft::nn::ParallelPlan llama_plan() {
  using namespace weft::nn;
  return {
      {"tok_embeddings", rowwise()},           {"layers.*.attention.w[qkv]", colwise()},
      {"layers.*.attention.wo", rowwise()},    {"layers.*.feed_forward.w[13]", colwise()},
      {"layers.*.feed_forward.w2", rowwise()}, {"output", colwise()},
  };
}

} // namespace models
