#include "weft/tensor/dispatch/call_overlap.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/collectives.h"
#include "weft/comm/comm_log.h"
#include "weft/overlap/measure/mesh_rates.h"
#include "weft/tensor/impl/explain.h"

namespace weft {

namespace call_overlap_test {
using namespace weft::testing;

const Compute kCompute{1e11, 3e10, 1e-6};
const Link kSlow{1e-4, 125e6};
const Link kFast{1e-6, 1e12};

CallOverlap overlap_of(const DeviceMesh& mesh, int64_t rows, CallOverlap::Choose* choose = choose_overlap) {
  return {
      TensorSpec::make(mesh, {Shard(0)}, {rows, 512}, at::kFloat), 0,
      OverlapCase{
          .kind = OverlapKind::GatherMatmul,
          .dim = OverlapDim::Rows,
          .members = 2,
          .rows = rows,
          .inner = 512,
          .columns = 512,
          .element_bytes = 4},
      choose};
}

TEST(CallOverlap, TheModeSaysAndInAutoTheRates) {
  for (const bool pays : {true, false}) {
    give_rates(pays ? kSlow : kFast, kCompute);
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      auto overlap = overlap_of(mesh, 512);
      for (const auto mode : {OverlapMode::Off, OverlapMode::Force, OverlapMode::Auto, OverlapMode::Force}) {
        const OverlapScope scope(mode);
        const bool is_on = overlap.is_on();
        EXPECT_EQ(is_on, mode == OverlapMode::Force || (mode == OverlapMode::Auto && pays));
        if (is_on) {
          EXPECT_GE(overlap.chunks(), 1);
          EXPECT_EQ(overlap.reason() == "as the scope says", mode == OverlapMode::Force) << overlap.reason();
        }
      }
    });
  }
  give_rates(std::nullopt, std::nullopt);
}

TEST(CallOverlap, IsDecidedOnceAndAgainWhereRanksAgreeOnOtherRates) {
  give_rates(kSlow, kCompute);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    static thread_local int64_t decisions = 0;
    auto overlap = overlap_of(mesh, 512, [](const OverlapCase& each, const Link& link, const Compute& compute) {
      ++decisions;
      return choose_overlap(each, link, compute);
    });
    EXPECT_TRUE(overlap.is_on() && overlap.is_on());
    EXPECT_EQ(decisions, 1);
    barrier(mesh, {0});
    give_rates(kFast, kCompute);
    EXPECT_TRUE(overlap.is_on()) << "before all ranks agree";
    measure_rates(mesh);
    EXPECT_FALSE(overlap.is_on() || overlap.is_on());
  });
  give_rates(std::nullopt, std::nullopt);
}

TEST(CallOverlap, MeasuresOnceAndSaysSo) {
  give_rates(kSlow, kCompute);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const ExplainLog explained;
    overlap_of(mesh, 512).is_on();
    overlap_of(mesh, 1024).is_on();
    ASSERT_EQ(explained.calls().size(), 1);
    EXPECT_EQ(
        explained.to_string(),
        "measure_rates(mesh(a=2), f32): rates(a=100us,125MB/s; compute=100Gflop/s,30GB/s,1us)\n"
        "  the first matmul that is large enough to overlap measures for its mesh and dtype; measure_rates(mesh) does "
        "so "
        "before\n");
  });
  give_rates(std::nullopt, std::nullopt);
}

TEST(CallOverlap, SmallOnesAndOtherModesMeasureNothing) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const CommLog log(mesh);
    EXPECT_FALSE(overlap_of(mesh, 2).is_on());
    for (const auto mode : {OverlapMode::Off, OverlapMode::Force}) {
      const OverlapScope scope(mode);
      overlap_of(mesh, 512).is_on();
    }
    EXPECT_EQ(log.calls(), 0);
    EXPECT_EQ(agreed_rates(mesh, at::kFloat), std::nullopt);
  });
}

} // namespace call_overlap_test

} // namespace weft
