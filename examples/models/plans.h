#pragma once

#include "weft/styles/parallel_plan.h"

namespace models {

/// The file in examples/plans for a model, "llama" or "gpt2", which Python reads too.
std::string plan_file(const std::string& model, bool sequence_parallel);

/// What llama.json says, in C++ and without the number of heads: the same for models of any sizes.
weft::nn::ParallelPlan llama_plan();

} // namespace models
