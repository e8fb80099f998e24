#include "weft/fully_sharded/unit_order.h"

#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/unit.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

namespace weft {

namespace unit_order_test {
using namespace weft::testing;

/// What is said to be next while the units with these numbers begin; -1: none.
std::vector<int> nexts(
    UnitOrder& order,
    const std::vector<std::shared_ptr<Unit>>& units,
    const std::vector<int>& pass) {
  std::vector<int> result;
  order.begin_pass();
  for (const int number : pass) {
    const auto next = order.next(*units[number]).lock();
    const auto found = std::find(units.begin(), units.end(), next);
    result.push_back(found == units.end() ? -1 : static_cast<int>(found - units.begin()));
  }
  return result;
}

TEST(UnitOrder, TellsWhatCameNextInTheLastPass) {
  on_mesh({1}, [](const DeviceMesh& mesh) {
    std::vector<std::shared_ptr<Unit>> units;
    for (int i = 0; i < 4; ++i) {
      units.push_back(std::make_shared<Unit>(
          std::vector<at::Tensor>{}, UnitOptions{.mesh_dim = mesh.name(0)}, [](c10::ArrayRef<at::Tensor>) {}));
    }
    UnitOrder order;
    EXPECT_EQ(nexts(order, units, {0, 1, 0, 2}), (std::vector<int>{-1, -1, -1, -1}));
    EXPECT_EQ(nexts(order, units, {0, 1, 0, 2}), (std::vector<int>{1, 0, 2, -1})); // each use by itself
    EXPECT_EQ(nexts(order, units, {0, 2, 3}), (std::vector<int>{1, -1, -1}));      // one was left out, one is new
    EXPECT_EQ(nexts(order, units, {2, 0, 3}), (std::vector<int>{3, 2, -1}));       // another order
    order.begin_pass();
    order.begin_pass(); // nothing began
    EXPECT_EQ(order.last().size(), 3);
    units.clear();
    EXPECT_TRUE(order.last()[0].expired());
  });
}

} // namespace unit_order_test
} // namespace weft
