#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace weft::testing {

using Values = std::vector<at::Tensor>;
/// A function from tensors to tensors, written once for plain and for distributed ones.
using TensorProgram = std::function<Values(const Values& inputs)>;

struct AgainstPlainOptions {
  double tolerance = 1e-9;
  /// The dims that inputs may be sharded by; all of them unless given.
  std::optional<std::vector<int64_t>> shard_dims = std::nullopt;
};

/// Runs a program on copies of the inputs, and on ranks as threads on distributed ones, in every combination of
/// placements R and S on a mesh (2) and in as many on a mesh (2, 2). Copies are leaves that require a gradient where the
/// input does. Expects the same outputs: values, dtypes, and whether they require a gradient.
///
///   expect_as_plain({a, b}, [](const Values& in) -> Values { return {in[0].matmul(in[1])}; });
void expect_as_plain(const Values& inputs, const TensorProgram& program, const AgainstPlainOptions& options = {});

/// The text of the error that a program raises, on plain and on distributed tensors alike.
std::string error_as_plain(const Values& inputs, const TensorProgram& program);

/// A leaf of these sizes that requires a gradient. Its values are irregular, and the same every time.
at::Tensor parameter(c10::IntArrayRef sizes, at::ScalarType dtype = at::kDouble);

} // namespace weft::testing
