#pragma once

#include "weft/core/device_mesh.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace weft::testing {

using Tensors = std::vector<at::Tensor>;

/// One operator of a program: what it is called with, by the numbers of earlier values, and numbers of its own.
struct ProgramStep {
  size_t op; // in program_ops()
  std::vector<size_t> operands;
  std::vector<int64_t> numbers;
};

struct ProgramInput {
  std::vector<int64_t> shape;
  Layout layout;
};

/// What a program's values are when it has ended, and the gradients of its inputs.
struct ProgramResult {
  Tensors values;
  Tensors gradients;
  std::vector<size_t> refused; // steps that would write where the result cannot be stored: left out
};

/// A program over tensors of doubles. Its values are its inputs, then what every step gives.
struct RandomProgram {
  uint64_t seed = 0;
  std::vector<int64_t> mesh_shape;
  bool with_gradients = false;
  std::vector<ProgramInput> inputs;
  std::vector<ProgramStep> steps;

  /// A line per value: "v3 = mul(v0, v1)".
  std::string to_string() const;
  /// The first value or gradient that is not the same; empty where all are.
  std::string difference(const ProgramResult& actual, const ProgramResult& expected) const;
};

/// Ten to thirty steps on one of the meshes (2), (3), (4), (2,2); the same for the same seed.
RandomProgram random_program(uint64_t seed);

/// On one device; steps that are refused when distributed are left out. Raises where the program is not a valid one.
ProgramResult run_on_one_device(const RandomProgram& program, const std::vector<size_t>& left_out = {});

/// On every rank of the mesh, gathered.
ProgramResult run_distributed(const RandomProgram& program, const DeviceMesh& mesh);

/// The program without a step; nothing where others need what it gives and nothing else has that shape.
std::optional<RandomProgram> without_step(const RandomProgram& program, size_t step);

} // namespace weft::testing
