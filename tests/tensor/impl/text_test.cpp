#include "weft/tensor/impl/text.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/factories.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <sstream>

namespace weft {

namespace text_test {
using namespace weft::testing;

TEST(Text, ShowsTheSpecAndWhatThisRankHolds) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = at::arange(15, at::kFloat).view({5, 3});
    const auto tensor = from_local(part_of(global, mesh, {Shard(0)}), mesh, {Shard(0)}, global.sizes());
    const CommLog log(mesh);
    EXPECT_EQ(
        to_string(tensor),
        mesh.rank(0) == 0 ? "f32[5,3] @ mesh(a=2) {S(0)}\n"
                            "rank 0 holds [3,3]:\n"
                            "[[0, 1, 2],\n"
                            " [3, 4, 5],\n"
                            " [6, 7, 8]]"
                          : "f32[5,3] @ mesh(a=2) {S(0)}\n"
                            "rank 1 holds [2,3]:\n"
                            "[[9, 10, 11],\n"
                            " [12, 13, 14]]");
    EXPECT_EQ(log.calls(), 0);
  });
}

TEST(Text, ShowsValuesOfEveryDtype) {
  on_mesh({1}, [](const DeviceMesh& mesh) {
    const auto values = [&](const at::Tensor& local) {
      const auto text = to_string(from_local(local, mesh, {Replicate()}));
      return text.substr(text.rfind('\n') + 1);
    };
    EXPECT_EQ(values(at::full({1}, 0.5)), "[0.5]");
    EXPECT_EQ(values(at::full({1}, 0.5, at::kBFloat16)), "[0.5]");
    EXPECT_EQ(values(at::full({2}, true)), "[true, true]");
    EXPECT_EQ(values(at::full({1}, -3, at::kLong)), "[-3]");
    EXPECT_EQ(values(at::full({1}, c10::complex<double>(1, 2))), "[(1,2)]");
    EXPECT_EQ(values(at::full({1}, std::numeric_limits<double>::infinity())), "[inf]");
    EXPECT_EQ(values(at::full({1}, 1.0).to(at::kFloat8_e4m3fn)), "[1]");
    EXPECT_EQ(values(at::complex(at::ones({1}), at::ones({1})).conj()), "[(1,-1)]");
  });
}

TEST(Text, OfALongTensorTheEndsAreShown) {
  on_mesh({1}, [](const DeviceMesh& mesh) {
    const auto text = to_string(from_local(at::arange(2000), mesh, {Replicate()}));
    EXPECT_EQ(text, "i64[2000] @ mesh(a=1) {R}\nrank 0 holds [2000]:\n[0, 1, 2, ..., 1997, 1998, 1999]");
    const auto wide = to_string(zeros({1, 1, 1, 1, 2000, 2}, mesh, {Replicate()}));
    expect_contains(wide, "[[[[[[0, 0],\n     ...,\n     [0, 0]]]]]]");
  });
}

TEST(Text, ShowsWhatHasNoValues) {
  run_on_ranks(4, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {3}, {"a"});
    EXPECT_EQ(
        to_string(zeros({2, 2}, mesh, {Shard(0)})),
        c10::str(
            "f32[2,2] @ mesh(a=3) {S(0)}\nrank ", rank,
            rank < 2        ? " holds [1,2]:\n[[0, 0]]"
                : rank == 2 ? " holds [0,2]:\n[]"
                            : " is not in the mesh"));
    EXPECT_EQ(
        to_string(zeros({2}, init_device_mesh("meta", {4}, {"a"}), {Replicate()})),
        c10::str("f32[2] @ mesh(a=4; meta) {R}\nrank ", rank, " holds [2] without values"));
    if (rank < 3) {
      EXPECT_EQ(
          to_string(full({}, 2.5, mesh, {Replicate()})),
          c10::str("f32[] @ mesh(a=3) {R}\nrank ", rank, " holds []:\n2.5"));
    }
  });
}

TEST(Text, WaitsForALocalTensorThatACollectiveWrites) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto tensor = ones({2}, mesh, {Shard(0)}, {.requires_grad = true});
    const auto moved = redistribute(tensor, {Replicate()}, {.async_op = true});
    EXPECT_EQ(to_string(moved), c10::str("f32[2] @ mesh(a=2) {R}\nrank ", mesh.rank(0), " holds [2]:\n[1, 1]"));
  });
}

TEST(Text, ALocalTensorWhoseCollectiveFailsIsShownAsTheError) {
  const auto spec = TensorSpec::parse("f32[2] @ mesh(a=2) {R}");
  const auto failed = [&](std::function<void()> error) {
    return make_dtensor(AsyncTensor(at::ones({2}), Pending(std::move(error))), spec, c10::Device(c10::kCPU));
  };
  EXPECT_EQ(
      to_string(failed([] { TORCH_CHECK(false, "rank 1 has left"); })),
      "f32[2] @ mesh(a=2) {R}\nthis rank's local tensor cannot be shown: rank 1 has left");
  EXPECT_EQ(
      to_string(failed([] { throw std::runtime_error("no link"); })),
      "f32[2] @ mesh(a=2) {R}\nthis rank's local tensor cannot be shown: no link");
}

TEST(Text, APlainTensorIsPrintedAsTorchDoes) {
  std::ostringstream torchs;
  torchs << at::ones({2});
  EXPECT_EQ(to_string(at::ones({2})), torchs.str());
  EXPECT_EQ(to_string(at::Tensor()), "[ Tensor (undefined) ]");
}

} // namespace text_test

} // namespace weft
