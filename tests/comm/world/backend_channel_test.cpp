#include "weft/comm/world/backend_channel.h"

#include <gtest/gtest.h>

namespace weft {

namespace backend_channel_test {

/// A backend that is never used.
struct IdleBackend : c10d::Backend {
  IdleBackend() : Backend(1, 3) {}
};

TEST(BackendChannel, TheFirstCallMakesTheAttachmentOfTheMember) {
  const auto backend = [] { return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<IdleBackend>()); };
  BackendChannel channel(nullptr, backend(), backend());
  int made = 0;
  const auto make = [&](const auto& /*store*/, int64_t rank, int64_t size) -> std::shared_ptr<void> {
    ++made;
    return std::make_shared<int64_t>(10 * rank + size);
  };
  EXPECT_EQ(*static_cast<int64_t*>(channel.attachment(make)), 13);
  EXPECT_EQ(*static_cast<int64_t*>(channel.attachment(make)), 13);
  EXPECT_EQ(made, 1);
  EXPECT_NE(&channel.backend(0, 2), &channel.backend(2, 0)) << "a connection per direction";
}

} // namespace backend_channel_test

} // namespace weft
