#pragma once

#include "tests/support/layout_cases.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>

namespace weft::testing {

/// Runs `fn(mesh)` on every rank of a mesh of this shape, with dims a, b, ..., ranks being threads.
inline void on_mesh(const std::vector<int64_t>& shape, const std::function<void(const DeviceMesh& mesh)>& fn) {
  run_on_ranks(c10::multiply_integers(shape), [&](int64_t /*rank*/) {
    std::vector<std::string> names;
    for (size_t m = 0; m < shape.size(); ++m) {
      names.emplace_back(1, static_cast<char>('a' + m));
    }
    fn(init_device_mesh("cpu", shape, names));
  });
}

/// As on_mesh, with every layout of a tensor of this many dims on meshes (2), (3) and (2, 2).
inline void on_all_layouts(
    int64_t tensor_ndim,
    const std::vector<Placement>& placements,
    const std::function<void(const DeviceMesh& mesh, const Layout& layout)>& fn) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2}, {3}, {2, 2}}) {
    for (const auto& layout : all_layouts(static_cast<int64_t>(shape.size()), tensor_ndim, placements)) {
      SCOPED_TRACE(layout.to_string());
      on_mesh(shape, [&](const DeviceMesh& mesh) { fn(mesh, layout); });
    }
  }
}

inline at::Tensor whole_numbers(c10::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return (at::arange(c10::multiply_integers(sizes), at::kLong).view(sizes) - 4).to(dtype);
}

/// What this rank holds of `global`, by definition.
inline at::Tensor part_of(const at::Tensor& global, const DeviceMesh& mesh, const Layout& layout) {
  return local_by_definition(global, layout, mesh.shape(), mesh.coordinate());
}

inline void expect_equal(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_TRUE(actual.defined());
  EXPECT_TRUE(at::equal(actual, expected)) << actual << "\ninstead of\n" << expected;
}

} // namespace weft::testing
