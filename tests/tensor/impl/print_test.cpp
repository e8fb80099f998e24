#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/impl/text.h"

#include <sstream>

namespace weft {

namespace print_test {
using namespace weft::testing;

std::string printed(const at::Tensor& tensor) {
  std::ostringstream stream;
  stream << tensor;
  return stream.str();
}

TEST(Print, ShowsADistributedTensorAsItsTextDoesWithoutCommunication) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto& sizes : {std::vector<int64_t>{}, {5}, {3, 4}, {4, 3, 2}, {0, 3}}) {
      const auto layout = sizes.empty() ? Layout{Replicate()} : Layout{Shard(0)};
      const auto tensor = distribute_tensor(whole_numbers(sizes), mesh, layout);
      const CommLog log(mesh);
      EXPECT_EQ(printed(tensor), to_string(tensor));
      EXPECT_EQ(log.calls(), 0);
    }
  });
}

TEST(Print, LeavesPlainTensorsAsTheyAre) {
  EXPECT_EQ(printed(at::ones({2}, at::kLong)), " 1\n 1\n[ CPULongType{2} ]");
  EXPECT_EQ(printed(at::Tensor()), "[ Tensor (undefined) ]");
}

} // namespace print_test

} // namespace weft
