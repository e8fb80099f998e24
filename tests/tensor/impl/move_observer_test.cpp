#include "weft/tensor/impl/move_observer.h"

#include "tests/support/on_meshes.h"
#include "weft/tensor/boundary/redistribute_once.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace move_observer_test {
using namespace weft::testing;

struct Listing final : MoveObserver {
  std::vector<std::string> moves;

  bool is_watching() const override {
    return true;
  }
  static std::string text(const at::Tensor& tensor) {
    return is_dtensor(tensor) ? spec_of(tensor)->layout().to_string() : "plain";
  }
  at::Tensor observe(const at::Tensor& tensor, c10::function_ref<at::Tensor()> move) override {
    auto result = move();
    moves.push_back(text(tensor) + " " + text(result));
    return result;
  }
};

TEST(MoveObserver, IsToldOfMovesOfItsThreadAsLongAsItLasts) {
  EXPECT_EQ(MoveObserver::of_thread(), nullptr);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    {
      Listing listing;
      EXPECT_EQ(MoveObserver::of_thread(), &listing);
      expect_equal(full_tensor(x), whole_numbers({4, 2}));
      from_local(at::ones({2}), mesh, {Replicate()});
      redistribute(x, {Shard(0)});
      const std::vector<std::string> expected{"{S(0)} {R}", "{R} plain", "plain {R}"};
      EXPECT_EQ(listing.moves, expected) << "what stays as it is does not move";
    }
    EXPECT_EQ(MoveObserver::of_thread(), nullptr);
  });
}

TEST(MoveObserver, SeesEveryGradientThatMoves) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto w = distribute_tensor(whole_numbers({2, 2}), mesh, {Replicate()}).requires_grad_();
    Listing listing;
    at::mm(x, w).backward(x);
    EXPECT_EQ(listing.moves, std::vector<std::string>{"{P(sum)} {R}"}) << "not in a bucket";
    expect_equal(full_tensor(w.grad()), whole_numbers({4, 2}).t().mm(whole_numbers({4, 2})));
  });
}

TEST(MoveObserver, NormsUseOperatorsOnDistributedTensorsWhileItWatches) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    Listing listing;
    for (const double order : {2.0, 1.0, 0.0, 3.0, HUGE_VAL, -HUGE_VAL}) {
      const auto norm = at::linalg_vector_norm(x, order, {{0}});
      EXPECT_TRUE(spec_of(norm)->layout().has_partial() || order == 2 || order == 3) << order;
      EXPECT_TRUE(at::allclose(full_tensor(norm), at::linalg_vector_norm(global, order, {{0}}))) << order;
    }
    EXPECT_TRUE(at::allclose(full_tensor(at::_foreach_norm({x, x})[1]), global.norm()));
  });
}

TEST(MoveObserver, SeesARepeatedRedistribution) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    redistribute_once(x, {Replicate()}, &mesh);
    Listing listing;
    redistribute_once(x, {Replicate()}, &mesh);
    EXPECT_EQ(listing.moves.size(), 1U);
  });
}

} // namespace move_observer_test

} // namespace weft
