#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

namespace weft {

namespace composite_out_test {
using namespace weft::testing;

/// Stores in a tensor of every layout, on two ranks, what the program stores in a plain one.
void expect_stored(
    const std::vector<at::Tensor>& read,
    const at::Tensor& out,
    const std::function<at::Tensor&(const std::vector<at::Tensor>&, at::Tensor&)>& program) {
  auto want = out.clone();
  program(read, want);
  for (const auto& layout : {Layout{Replicate()}, Layout{Shard(0)}, Layout{Shard(1)}, Layout{Partial()}}) {
    for (const auto& of_inputs : {Layout{Replicate()}, Layout{Shard(0)}}) {
      on_mesh({2}, [&](const DeviceMesh& mesh) {
        std::vector<at::Tensor> inputs;
        for (const auto& tensor : read) {
          inputs.push_back(distribute_tensor(tensor, mesh, of_inputs));
        }
        auto stored = redistribute(distribute_tensor(out, mesh, {Replicate()}), layout);
        EXPECT_TRUE(program(inputs, stored).is_same(stored));
        EXPECT_EQ(spec_of(stored)->layout(), layout);
        EXPECT_TRUE(at::allclose(full_tensor(stored), want)) << layout.to_string();
      });
    }
  }
}

TEST(CompositeOut, EveryLayoutIsWrittenWhereTorchWritesThroughAView) {
  expect_stored(
      {whole_numbers({3, 2}), whole_numbers({2, 4})}, at::zeros({6, 8}),
      [](const auto& in, at::Tensor& out) -> at::Tensor& { return at::kron_out(out, in[0], in[1]); });
}

TEST(CompositeOut, EveryLayoutIsWrittenWhereTorchStoresOtherResultsToo) {
  const auto matrix = at::eye(4) * 3 + whole_numbers({4, 4}) / 16;
  expect_stored({matrix}, at::zeros({4, 4}), [](const auto& in, at::Tensor& out) -> at::Tensor& {
    return at::linalg_inv_out(out, in[0]);
  });
  expect_stored({matrix}, at::zeros({4, 4}), [](const auto& in, at::Tensor& out) -> at::Tensor& {
    return at::msort_out(out, in[0]);
  });
}

TEST(CompositeOut, SeveralResultsAreStored) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto matrix = at::eye(4) * 3 + whole_numbers({4, 4}) / 16;
    auto sign = distribute_tensor(at::zeros({}), mesh, {Replicate()});
    auto logarithm = sign.clone();
    at::linalg_slogdet_out(sign, logarithm, distribute_tensor(matrix, mesh, {Shard(0)}));
    const auto [want_sign, want_logarithm] = at::linalg_slogdet(matrix);
    EXPECT_TRUE(at::allclose(full_tensor(sign), want_sign));
    EXPECT_TRUE(at::allclose(full_tensor(logarithm), want_logarithm));
  });
}

TEST(CompositeOut, WhatTorchRefusesIsRefused) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({2, 2}), mesh, {Shard(0)});
    const auto kron = [&](const at::Tensor& out, const at::Tensor& in) {
      return error_text([&] { at::kron_out(const_cast<at::Tensor&>(out), in, in); });
    };
    expect_contains(
        kron(x.clone(), x), "[aten::kron] argument 'out' must have the shape of the result, [4, 4], but got [2, 2]");
    const auto integers = distribute_tensor(at::zeros({4, 4}, at::kLong), mesh, {Shard(0)});
    expect_contains(
        kron(integers, x), "[aten::kron] argument 'out' must have a dtype that holds the result, Float, but got Long");
    expect_contains(
        kron(distribute_tensor(at::zeros({4, 4}), mesh, {Shard(0)}), x.clone().requires_grad_()),
        "[aten::kron] tensors that require no gradient are required with out=");
  });
}

} // namespace composite_out_test

} // namespace weft
