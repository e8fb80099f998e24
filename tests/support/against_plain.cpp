#include "tests/support/against_plain.h"

#include "tests/support/error_text.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/GradMode.h>

namespace weft::testing {

namespace {

/// The placements in which an input is tried.
std::vector<Placement> placements_of(const at::Tensor& input, const AgainstPlainOptions& options) {
  std::vector<Placement> placements = {Replicate()};
  for (int64_t d = 0; d < input.dim(); ++d) {
    const auto& allowed = options.shard_dims;
    if (!allowed || std::find(allowed->begin(), allowed->end(), d) != allowed->end()) {
      placements.push_back(Shard(d));
    }
  }
  return placements;
}

at::Tensor leaf_of(const at::Tensor& tensor) {
  return tensor.detach().clone().set_requires_grad(tensor.requires_grad());
}

Values leaves_of(const Values& inputs) {
  Values leaves;
  for (const auto& input : inputs) {
    leaves.push_back(leaf_of(input));
  }
  return leaves;
}

std::string text_of(const Values& tensors) {
  std::string text;
  for (const auto& tensor : tensors) {
    text += spec_of(tensor)->to_string() + "; ";
  }
  return text;
}

void expect_same(const at::Tensor& actual, const at::Tensor& expected, double tolerance, const std::string& where) {
  ASSERT_EQ(actual.defined(), expected.defined()) << where;
  if (!expected.defined()) {
    return;
  }
  EXPECT_EQ(actual.requires_grad(), expected.requires_grad()) << where;
  EXPECT_EQ(actual.is_inference(), expected.is_inference()) << where;
  const c10::NoGradGuard values_only;
  const auto global = is_dtensor(actual) ? full_tensor(actual) : actual;
  ASSERT_EQ(global.scalar_type(), expected.scalar_type()) << where;
  ASSERT_EQ(global.sizes(), expected.sizes()) << where;
  EXPECT_TRUE(at::allclose(global, expected.detach(), tolerance, tolerance)) << where << "\n"
                                                                             << global << "\ninstead of\n"
                                                                             << expected;
}

/// Calls `fn(inputs)` on the ranks of a mesh, with the inputs in every combination of placements.
void on_ranks(
    const Values& inputs,
    const AgainstPlainOptions& options,
    c10::IntArrayRef mesh_shape,
    const std::function<void(const Values&)>& fn) {
  size_t combinations = 1;
  for (const auto& input : inputs) {
    combinations *= placements_of(input, options).size();
  }
  run_on_ranks(c10::multiply_integers(mesh_shape), [&](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", mesh_shape);
    for (size_t combination = 0; combination < combinations; ++combination) {
      Values distributed;
      auto rest = combination;
      for (const auto& input : inputs) {
        const auto choice = placements_of(input, options);
        Placements placements;
        for (int64_t m = 0; m < mesh.ndim(); ++m) {
          placements.push_back(choice[(rest + m) % choice.size()]);
        }
        distributed.push_back(distribute_tensor(leaf_of(input), mesh, Layout(placements)));
        rest /= choice.size();
      }
      fn(distributed);
    }
  });
}

} // namespace

void expect_as_plain(const Values& inputs, const TensorProgram& program, const AgainstPlainOptions& options) {
  const auto expected = program(leaves_of(inputs));
  for (const auto& mesh_shape : {std::vector<int64_t>{2}, {2, 2}}) {
    on_ranks(inputs, options, mesh_shape, [&](const Values& distributed) {
      const auto where = text_of(distributed);
      SCOPED_TRACE(where);
      const auto actual = program(distributed);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        expect_same(actual[i], expected[i], options.tolerance, c10::str("result ", i, " of ", where));
      }
    });
  }
}

std::string error_as_plain(const Values& inputs, const TensorProgram& program) {
  const auto expected = error_text([&] { program(leaves_of(inputs)); });
  on_ranks(inputs, {}, {2}, [&](const Values& distributed) {
    EXPECT_EQ(error_text([&] { program(distributed); }), expected) << text_of(distributed);
  });
  return expected;
}

at::Tensor parameter(c10::IntArrayRef sizes, at::ScalarType dtype) {
  const auto count = c10::multiply_integers(sizes);
  const auto numbers = at::arange(count, at::kDouble).mul_(2.4).add_(1 + static_cast<double>(sizes.size()) / 3).sin_();
  return numbers.view(sizes).to(dtype).set_requires_grad(true);
}

} // namespace weft::testing
