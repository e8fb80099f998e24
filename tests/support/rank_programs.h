#pragma once

#include "weft/graph/ir/program.h"

#include <random>

namespace weft::testing {

/// The text of a program of a rank with small tensors: views, writes, and collectives that are
/// awaited at once or later.
std::string random_rank_program(std::mt19937& random, int nodes);

/// When a collective that is under way reads its operand: any time up to the wait is allowed.
enum class Transfer : uint8_t { AtStart, AtWait };

/// What a program of a rank gives for inputs that count from 0, from 1, ..., with the inputs as they are then before it.
/// A second rank's tensors are this one's and 1: that is enough to see which tensor, and when, takes part.
std::vector<at::Tensor> run_alone(const graph::Program& program, Transfer transfer);

/// The collectives of a program in order: operator, group and size.
std::vector<std::string> collectives_of(const graph::Program& program);

} // namespace weft::testing
