#include "weft/overlap/rates.h"

#include "tests/support/error_text.h"

namespace weft {

namespace rates_test {
using testing::error_text;

TEST(Rates, ALinkIsALatencyAndARate) {
  const auto link = parse_link("50us,125MB/s");
  EXPECT_DOUBLE_EQ(link.latency_seconds, 50e-6);
  EXPECT_DOUBLE_EQ(link.bytes_per_second, 125e6);
}

TEST(Rates, UnitsMayBeOthersAndSpacesStandAnywhereBetween) {
  const auto link = parse_link(" 0.05 ms , 1 Gbit/s ");
  EXPECT_DOUBLE_EQ(link.latency_seconds, 50e-6);
  EXPECT_DOUBLE_EQ(link.bytes_per_second, 125e6);
  EXPECT_DOUBLE_EQ(parse_link("0s,1TB/s").bytes_per_second, 1e12);
  EXPECT_DOUBLE_EQ(parse_link("1e3ns,64kbit/s").latency_seconds, 1e-6);
}

TEST(Rates, ComputeHasThreeNumbersAndTwoMoreWhereMessagesCostTheDevice) {
  const auto cuda = parse_compute("0.7Pflop/s,3TB/s,5us");
  EXPECT_DOUBLE_EQ(cuda.flops_per_second, 7e14);
  EXPECT_DOUBLE_EQ(cuda.call_seconds, 5e-6);
  EXPECT_EQ(cuda.message_seconds, 0);
  EXPECT_EQ(cuda.message_bytes_per_second, std::numeric_limits<double>::infinity());
  const auto cpu = parse_compute("100Gflop/s,27GB/s,1us,15us,2GB/s");
  EXPECT_DOUBLE_EQ(cpu.message_seconds, 15e-6);
  EXPECT_DOUBLE_EQ(cpu.message_bytes_per_second, 2e9);
}

TEST(Rates, PrintAsTheyAreRead) {
  for (const std::string text : {"50us,125MB/s", "0ns,1TB/s", "1.234ms,12.5kB/s", "2s,10B/s"}) {
    EXPECT_EQ(to_string(parse_link(text)), text);
  }
  for (const std::string text : {"100Gflop/s,27GB/s,1us", "1.5Tflop/s,1TB/s,0ns", "100Gflop/s,27GB/s,1us,15us,2GB/s"}) {
    EXPECT_EQ(to_string(parse_compute(text)), text);
  }
  EXPECT_EQ(seconds_text(0.0209), "20.9ms");
}

TEST(Rates, WhatIsNoRateIsAnErrorThatShowsThePlace) {
  EXPECT_EQ(
      error_text<c10::ValueError>([] { parse_link("50us;125MB/s"); }),
      "[parse_link] a latency and a rate, as in '50us,125MB/s', is required, but got '50us;125MB/s', which is not so "
      "from "
      "'us;125MB/s' on.");
  for (const auto* text :
       {"", "50us", "50us,", "50us,0MB/s", "-1us,125MB/s", "50us,125MB/s,1us", "125MB/s,50us", "inf s,1B/s"}) {
    EXPECT_NE(error_text<c10::ValueError>([&] { parse_link(text); }), "") << text;
  }
  for (const auto* text : {"100Gflop/s", "100Gflop/s,27GB/s,1us,15us", "100GB/s,27GB/s,1us", "nan flop/s,1B/s,1s"}) {
    EXPECT_NE(error_text<c10::ValueError>([&] { parse_compute(text); }), "") << text;
  }
}

} // namespace rates_test

} // namespace weft
