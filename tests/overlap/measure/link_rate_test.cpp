#include "weft/overlap/measure/link_rate.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/communicator.h"

namespace weft {

namespace link_rate_test {
using testing::error_text;
using testing::on_mesh;

TEST(LinkRate, IsTheSameOnAllMembers) {
  for (const int64_t members : {2, 3}) {
    on_mesh({members}, [](const DeviceMesh& mesh) {
      auto& group = *Communicator::of(mesh).group(mesh, {0});
      const auto times = measure_link(group, at::kCPU);
      const std::vector<double> values = {times.latency, times.message, times.per_byte, times.device_per_byte};
      auto negative = values;
      for (auto& value : negative) {
        EXPECT_GE(value, 0);
        value = -value;
      }
      EXPECT_EQ(largest(group, at::kCPU, values), values);
      EXPECT_EQ(largest(group, at::kCPU, negative), negative);
      EXPECT_GT(times.latency, 0);
      EXPECT_GT(times.per_byte, 0);
      EXPECT_LE(times.message, times.latency);
      EXPECT_LE(times.device_per_byte, times.per_byte);
      EXPECT_LT(times.per_byte, 1e-6);
    });
  }
}

TEST(LinkRate, TheLargestValueIsFoundOnAnyMember) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    auto& group = *Communicator::of(mesh).group(mesh, {0});
    const auto rank = static_cast<double>(group.rank());
    EXPECT_EQ(largest(group, at::kCPU, {rank, -rank}), (std::vector<double>{2, 0}));
  });
}

TEST(LinkRate, AMemberThatDoesNotComeIsAnErrorWithinTheTimeout) {
  const auto text = error_text<std::exception>([] {
    run_on_ranks(
        2,
        [](int64_t rank) {
          const auto mesh = init_device_mesh("cpu", {2});
          if (rank == 0) {
            measure_link(*Communicator::of(mesh).group(mesh, {0}), at::kCPU);
          }
        },
        {.timeout = std::chrono::milliseconds(300)});
  });
  EXPECT_NE(text, "");
}

} // namespace link_rate_test

} // namespace weft
