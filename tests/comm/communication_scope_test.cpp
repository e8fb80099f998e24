#include "weft/comm/communication_scope.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/collectives.h"

namespace weft {

namespace communication_scope_test {
using namespace weft::testing;

TEST(CommunicationScope, ForbidsCollectivesOfItsThread) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto sum = [&] { return all_reduce(at::ones({2}), mesh, {0}, ReduceOp::Sum).wait(); };
    {
      const CommunicationScope forbidden(false);
      const auto text = error_text([&] { sum(); });
      EXPECT_EQ(text.find("[all_reduce] a collective is required outside of a step that is recorded"), 0U) << text;
      const CommunicationScope allowed(true);
      expect_equal(sum(), at::full({2}, 2.0F));
    }
    EXPECT_TRUE(CommunicationScope::is_allowed());
    expect_equal(sum(), at::full({2}, 2.0F));
  });
}

} // namespace communication_scope_test

} // namespace weft
