#include "tests/support/finite_differences.h"

#include "tests/support/layout_cases.h"
#include "weft/comm/collectives.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <numeric>

namespace weft::testing {

namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;

MeshDims all_dims(const DeviceMesh& mesh) {
  MeshDims dims(mesh.ndim());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

double reduced_over_ranks(double value, const DeviceMesh& mesh, ReduceOp op) {
  return all_reduce(at::full({1}, value, at::kDouble), mesh, all_dims(mesh), op).wait().item<double>();
}

/// The ranks that hold the same are one place.
int64_t place_of(std::vector<int64_t> coordinate, const DeviceMesh& mesh, const Layout& layout) {
  int64_t place = 0;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    place = place * mesh.size(m) + (layout[m].is_replicate() ? 0 : coordinate[m]);
  }
  return place;
}

class Check {
 public:
  Check(const DeviceMesh& mesh, const Layout& layout)
      : mesh_(mesh), layout_(layout), place_(place_of(mesh.coordinate().vec(), mesh, layout)) {
    for (int64_t m = 0; m < mesh.ndim(); ++m) {
      copies_ *= layout[m].is_replicate() ? mesh.size(m) : 1;
    }
  }

  double total(double own) const {
    return reduced_over_ranks(own, mesh_, ReduceOp::Sum) / static_cast<double>(copies_);
  }

  /// Different on every place, the same within.
  at::Tensor weights_like(const at::Tensor& x) const {
    return at::arange(x.numel(), at::kDouble).view(x.sizes()).add(static_cast<double>(place_)).cos();
  }

  at::Tensor differences(const std::function<double(const at::Tensor&)>& value, const at::Tensor& x) const {
    const auto result = at::zeros_like(x);
    const auto most = static_cast<int64_t>(reduced_over_ranks(static_cast<double>(x.numel()), mesh_, ReduceOp::Max));
    for (int64_t place = 0; place < mesh_.size(); ++place) {
      for (int64_t i = 0; i < most; ++i) {
        const bool is_here = place == place_ && i < x.numel();
        const auto value_with = [&](double change) {
          const auto changed = x.detach().clone();
          if (is_here) {
            changed.view(-1)[i].add_(change);
          }
          return value(changed);
        };
        const auto slope = (value_with(kStep) - value_with(-kStep)) / (2 * kStep);
        if (is_here) {
          result.view(-1)[i].fill_(slope);
        }
      }
    }
    return result;
  }

 private:
  const DeviceMesh& mesh_;
  const Layout& layout_;
  int64_t place_;
  int64_t copies_ = 1;
};

void expect_close(const char* what, const at::Tensor& actual, const at::Tensor& expected) {
  EXPECT_TRUE(at::allclose(actual, expected, kTolerance, kTolerance)) << what << "\n"
                                                                      << actual << "\ninstead of\n"
                                                                      << expected;
}

} // namespace

void check_derivatives(
    const std::function<at::Tensor(const at::Tensor& x)>& loss,
    const at::Tensor& x,
    const DeviceMesh& mesh,
    const Layout& layout,
    Loss where) {
  const Check check(mesh, layout);
  const auto gradient_at = [&](const at::Tensor& point) {
    return torch::autograd::grad({loss(point)}, {point}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  };
  const auto leaf = [](const at::Tensor& values) { return values.detach().clone().set_requires_grad(true); };
  const auto weights = check.weights_like(x);

  const auto point = leaf(x);
  const auto gradient = gradient_at(point);
  expect_close(
      "first derivative", gradient.detach(),
      check.differences(
          [&](const at::Tensor& changed) {
            const auto own = loss(changed).item<double>();
            return where == Loss::SameOnAllRanks ? own : check.total(own);
          },
          x));
  if (!gradient.requires_grad()) {
    return;
  }
  const auto second = torch::autograd::grad({(gradient * weights).sum()}, {point})[0];
  expect_close(
      "second derivative", second,
      check.differences(
          [&](const at::Tensor& changed) {
            return check.total((gradient_at(leaf(changed)).detach() * weights).sum().item<double>());
          },
          x));
}

} // namespace weft::testing
