#include "weft/overlap/overlap_cost.h"

#include "tests/support/error_text.h"

#include <chrono>

namespace weft {

namespace overlap_cost_test {
using testing::error_text;
using testing::expect_contains;

constexpr auto kKinds = {OverlapKind::GatherMatmul, OverlapKind::MatmulScatter};

OverlapCase rows_case(OverlapKind kind, int64_t rows, int64_t inner, int64_t columns, int64_t members = 2) {
  return {
      .kind = kind,
      .dim = OverlapDim::Rows,
      .members = members,
      .rows = rows,
      .inner = inner,
      .columns = columns,
      .element_bytes = 4};
}

class OverlapCost : public ::testing::Test {
 protected:
  OverlapChoice choose(const OverlapCase& overlap) const {
    return choose_overlap(overlap, gigabit_, core_);
  }

  Link gigabit_ = parse_link("80us,117MB/s");
  Compute core_ = parse_compute("105Gflop/s,27GB/s,1us,15us,2GB/s");
};

TEST_F(OverlapCost, FusesWhereCommunicationAndComputeAreAlike) {
  for (const auto kind : kKinds) {
    const auto choice = choose(rows_case(kind, 1024, 1024, 1024));
    EXPECT_TRUE(choice.fuse) << choice.reason;
    EXPECT_GE(choice.chunks, 4);
    EXPECT_NEAR(choice.unfused_seconds, 40e-3, 4e-3);
    EXPECT_LT(choice.fused_seconds, 1.2 * 20.9e-3);
    expect_contains(choice.reason, std::to_string(choice.chunks) + " chunks take ");
  }
}

TEST_F(OverlapCost, TheModelIsThisTable) {
  struct Row {
    OverlapKind kind;
    OverlapDim dim;
    int64_t members, rows, inner, columns;
    bool fuse;
  };
  const std::vector<Row> rows = {
      {OverlapKind::GatherMatmul, OverlapDim::Rows, 2, 1, 1024, 1024, false},
      {OverlapKind::GatherMatmul, OverlapDim::Rows, 2, 64, 64, 64, false},
      {OverlapKind::GatherMatmul, OverlapDim::Rows, 2, 512, 512, 512, true},
      {OverlapKind::GatherMatmul, OverlapDim::Rows, 2, 8192, 1024, 1024, true},
      {OverlapKind::GatherMatmul, OverlapDim::Rows, 4, 1024, 1024, 1024, true},
      {OverlapKind::GatherMatmul, OverlapDim::Rows, 8, 4096, 1024, 1024, true},
      {OverlapKind::GatherMatmul, OverlapDim::Inner, 2, 1024, 1024, 1024, true},
      {OverlapKind::MatmulScatter, OverlapDim::Rows, 2, 1024, 1024, 1024, true},
      {OverlapKind::MatmulScatter, OverlapDim::Columns, 2, 1024, 1024, 1024, true},
      // Much compute and little communication, and the other way round: there is little to gain.
      {OverlapKind::MatmulScatter, OverlapDim::Rows, 2, 4096, 65536, 16, false},
      {OverlapKind::GatherMatmul, OverlapDim::Rows, 2, 4096, 4096, 4, false},
  };
  for (const auto& row : rows) {
    const auto choice = choose(
        {.kind = row.kind,
         .dim = row.dim,
         .members = row.members,
         .rows = row.rows,
         .inner = row.inner,
         .columns = row.columns,
         .element_bytes = 4});
    EXPECT_EQ(choice.fuse, row.fuse) << row.rows << " x " << row.inner << " x " << row.columns << " of " << row.members
                                     << ": " << choice.reason;
  }
}

TEST_F(OverlapCost, NeverFusesWhatIsTiny) {
  for (const auto kind : kKinds) {
    for (const int64_t rows : {0, 1, 2, 8}) {
      const auto overlap = rows_case(kind, rows, 64, 64);
      EXPECT_TRUE(too_small_to_overlap(overlap));
      for (const auto& link : {Link{0, 1e3}, Link{0, 1e15}, gigabit_}) {
        const auto choice = choose_overlap(overlap, link, core_);
        EXPECT_FALSE(choice.fuse) << rows;
        EXPECT_EQ(choice.reason, "too little is sent or computed for any link");
      }
    }
    EXPECT_FALSE(too_small_to_overlap(rows_case(kind, 512, 512, 512)));
  }
}

TEST_F(OverlapCost, AGroupOfOneHasNothingToHide) {
  const auto choice = choose(rows_case(OverlapKind::GatherMatmul, 1024, 1024, 1024, 1));
  EXPECT_FALSE(choice.fuse);
  EXPECT_EQ(choice.chunks, 1);
  EXPECT_EQ(choice.fused_seconds, choice.unfused_seconds);
  EXPECT_EQ(choice.reason, "a group of one sends nothing");
}

TEST_F(OverlapCost, SaysWhyNot) {
  const auto slow = parse_link("10ms,1GB/s");
  EXPECT_EQ(
      choose_overlap(rows_case(OverlapKind::GatherMatmul, 64, 1024, 1024), slow, parse_compute("1Tflop/s,1TB/s,1us"))
          .reason,
      "the matmul takes 139.9us, less than the latency of a message, 10ms");
  expect_contains(
      choose_overlap(rows_case(OverlapKind::GatherMatmul, 1024, 1024, 1024), parse_link("1us,1TB/s"), core_).reason,
      "next to nothing compared with the matmul's");
  expect_contains(choose(rows_case(OverlapKind::GatherMatmul, 4096, 4096, 4)).reason, "not clearly less than the");
}

TEST_F(OverlapCost, WithoutLatencyAndOverheadItIsNeverWorseThanOneAfterTheOther) {
  const Link link{.latency_seconds = 0, .bytes_per_second = 1e8};
  const Compute compute{.flops_per_second = 1e11, .bytes_per_second = 1e18, .call_seconds = 0};
  for (const auto kind : kKinds) {
    for (int64_t rows = 2; rows <= 8192; rows *= 2) {
      for (const int64_t members : {2, 3, 4, 16}) {
        const auto choice = choose_overlap(rows_case(kind, rows, 512, 2048, members), link, compute);
        EXPECT_LE(choice.fused_seconds, choice.unfused_seconds * (1 + 1e-6)) << rows << " of " << members;
      }
    }
  }
}

TEST_F(OverlapCost, TakesAtLeastTheLargerOfCommunicationAndComputeAndNotLessThanThat) {
  for (const auto kind : kKinds) {
    for (int64_t rows = 16; rows <= 8192; rows *= 2) {
      const auto overlap = rows_case(kind, rows, 1024, 1024);
      const auto choice = choose(overlap);
      const auto bytes = static_cast<double>(rows * 1024 * 4 / 2);
      const auto flops = 2.0 * static_cast<double>(rows * 1024 * 1024);
      EXPECT_GE(choice.fused_seconds, std::max(bytes / gigabit_.bytes_per_second, flops / core_.flops_per_second));
    }
  }
}

TEST_F(OverlapCost, GrowsWithTheSizesTheLatencyAndTheLinksSlowness) {
  for (const auto kind : kKinds) {
    OverlapChoice before{};
    for (int64_t rows = 64; rows <= 8192; rows *= 2) {
      const auto choice = choose(rows_case(kind, rows, 1024, 1024));
      EXPECT_GT(choice.unfused_seconds, before.unfused_seconds);
      EXPECT_GT(choice.fused_seconds, before.fused_seconds);
      before = choice;
    }
    const auto overlap = rows_case(kind, 1024, 1024, 1024);
    double seconds = 0;
    for (const double latency : {0.0, 1e-5, 1e-4, 1e-3, 1e-2}) {
      const auto choice = choose_overlap(overlap, {latency, 117e6}, core_);
      EXPECT_GE(choice.fused_seconds, seconds);
      seconds = choice.fused_seconds;
    }
    seconds = 0;
    for (const double rate : {1e10, 1e9, 1e8, 1e7}) {
      const auto choice = choose_overlap(overlap, {80e-6, rate}, core_);
      EXPECT_GE(choice.fused_seconds, seconds);
      seconds = choice.fused_seconds;
    }
  }
}

TEST_F(OverlapCost, AChunkHasARowAtLeast) {
  const Link link{.latency_seconds = 0, .bytes_per_second = 1e6};
  EXPECT_LE(choose_overlap(rows_case(OverlapKind::GatherMatmul, 6, 65536, 64), link, core_).chunks, 3);
  EXPECT_EQ(choose_overlap(rows_case(OverlapKind::GatherMatmul, 2, 65536, 64), link, core_).chunks, 1);
}

TEST_F(OverlapCost, TheSameIsChosenEveryTimeAndFast) {
  const auto overlap = rows_case(OverlapKind::GatherMatmul, 1024, 1024, 1024);
  const auto first = choose(overlap);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < 10000; ++i) {
    const auto choice = choose(overlap);
    ASSERT_EQ(choice.fused_seconds, first.fused_seconds);
    ASSERT_EQ(choice.reason, first.reason);
  }
  // A thousandth of a millisecond each, with room for a busy machine and for sanitizers.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(500));
}

TEST_F(OverlapCost, RatesMustBeRates) {
  const auto overlap = rows_case(OverlapKind::GatherMatmul, 1024, 1024, 1024);
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { choose_overlap(overlap, {0, 0}, core_); }),
      "[choose_overlap] a link with a rate is required, but got 0ns,0B/s.");
  expect_contains(
      error_text<c10::ValueError>([&] { choose_overlap(overlap, gigabit_, Compute{}); }),
      "[choose_overlap] a device with rates is required, but got 0flop/s");
}

} // namespace overlap_cost_test

} // namespace weft
