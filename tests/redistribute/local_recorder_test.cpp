#include "weft/redistribute/local_recorder.h"

#include "tests/support/on_meshes.h"
#include "weft/redistribute/execute.h"

namespace weft {

namespace local_recorder_test {
using namespace weft::testing;

/// Lists the redistributions, and lets them run.
class Listing final : public LocalRecorder {
 public:
  at::Tensor redistribute(const Plan& plan, const at::Tensor& /*local*/, c10::function_ref<at::Tensor()> run) override {
    text += plan.to_string() + ";";
    return run();
  }
  bool has_seen(const at::Tensor& /*local*/) const override {
    return false;
  }

  std::string text;
};

TEST(LocalRecorder, IsToldOfTheRedistributionsOfItsThread) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto sharded = TensorSpec::make(mesh, {Shard(0)}, {4}, at::kFloat);
    const auto local = at::ones({2});
    EXPECT_EQ(LocalRecorder::of_thread(), nullptr);
    Listing outer;
    {
      Listing inner;
      EXPECT_EQ(LocalRecorder::of_thread(), &inner);
      expect_equal(redistribute_local(local, sharded, sharded->with({Replicate()})).wait(), at::ones({4}));
      EXPECT_EQ(inner.text, "all_gather(a: S(0) -> R);");
    }
    EXPECT_EQ(LocalRecorder::of_thread(), &outer);
    EXPECT_EQ(outer.text, "") << "the innermost is told";
  });
}

} // namespace local_recorder_test

} // namespace weft
