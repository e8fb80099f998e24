#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

namespace weft {

namespace in_place_view_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;

TEST(InPlaceView, TheTensorBecomesTheView) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({5, 1, 4});
    const auto x = distribute_tensor(global, mesh, {Shard(2)});
    const auto local = to_local(x);
    EXPECT_TRUE(x.squeeze_(1).is_same(x));
    EXPECT_EQ(spec_of(x)->to_string(), "f32[5,4] @ mesh(a=2) {S(1)}");
    x.t_();
    EXPECT_EQ(spec_of(x)->layout(), Layout{Shard(0)});
    EXPECT_EQ(x.strides(), (c10::IntArrayRef{1, 4}));
    x.unsqueeze_(0);
    EXPECT_EQ(spec_of(x)->layout(), Layout{Shard(1)});
    EXPECT_TRUE(to_local(x).is_alias_of(local));
    expect_equal(full_tensor(x), global.squeeze(1).t().unsqueeze(0));
  });
}

TEST(InPlaceView, ATensorThatIsRedistributedForTheViewMayBeUsedOn) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({5, 4, 1});
    const auto x = distribute_tensor(global, mesh, {Shard(2)});
    x.squeeze_(2);
    EXPECT_EQ(spec_of(x)->to_string(), "f32[5,4] @ mesh(a=2) {R}");
    expect_equal(full_tensor(x.detach() * 2), global.squeeze(2) * 2);
    x.add_(1);
    expect_equal(full_tensor(x), global.squeeze(2) + 1);

    // A tensor that has the same memory would not change with it.
    const auto y = distribute_tensor(global, mesh, {Shard(2)});
    const auto same = y.detach();
    y.squeeze_(2);
    expect_contains(error_text([&] { y.add(1); }), "is a view that had to be redistributed");
    expect_equal(full_tensor(same), global);
  });
}

TEST(InPlaceView, ACopiedViewIsNotChanged) {
  // Otherwise it would be a tensor of its own from then on, and writes to it would be lost.
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto view = x.narrow(0, 1, 2); // of rows of two ranks
    const auto refused = "is a view that had to be redistributed, so that writing to it would not change the tensor";
    expect_contains(error_text<c10::ValueError>([&] { view.transpose_(0, 1); }), refused);
    expect_contains(error_text<c10::ValueError>([&] { view.unsqueeze_(0); }), refused);
    expect_equal(full_tensor(view.unsqueeze(0)), global.narrow(0, 1, 2).unsqueeze(0));
    auto copy = view.clone();
    expect_equal(full_tensor(copy.t_()), global.narrow(0, 1, 2).t());
    expect_equal(full_tensor(x), global);
  });
}

TEST(InPlaceView, DimsChangePlaces) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({5, 1, 4});
    const auto x = distribute_tensor(global, mesh, {Shard(2)});
    EXPECT_TRUE(x.transpose_(0, 2).is_same(x));
    EXPECT_EQ(spec_of(x)->layout(), Layout{Shard(0)});
    x.swapdims_(0, 1);
    EXPECT_EQ(spec_of(x)->layout(), Layout{Shard(1)});
    expect_equal(full_tensor(x), global.transpose(0, 2).transpose(0, 1));
  });
}

TEST(InPlaceView, EveryLayoutGivesTheSingleDevice) {
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> changes = {
      [](const at::Tensor& x) { return x.t_(); },
      [](const at::Tensor& x) { return x.unsqueeze_(1); },
      [](const at::Tensor& x) { return x.unsqueeze_(1).squeeze_(); },
      [](const at::Tensor& x) { return x.unsqueeze_(0).squeeze_(0).t_(); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(c10::str("change ", i));
    expect_as_plain({parameter({4, 3}).detach()}, [&](const Values& in) -> Values {
      changes[i](in[0]);
      return {in[0], in[0] * 2};
    });
  }
}

TEST(InPlaceView, AutogradFollows) {
  expect_as_plain({parameter({4, 3}), parameter({3, 4})}, [](const Values& in) -> Values {
    const auto x = in[0] * 1;
    x.t_();
    (x * in[1]).pow(3).sum().backward();
    return {x, in[0].grad(), in[1].grad()};
  });
  expect_as_plain({parameter({4, 3})}, [](const Values& in) -> Values {
    const auto x = in[0] * 1;
    x.unsqueeze_(0).mul_(3);
    x.squeeze_(0).t_().sin_();
    x.pow(3).sum().backward();
    return {x, in[0].grad()};
  });
}

TEST(InPlaceView, AnOperatorWithoutAViewFormRaises) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    EXPECT_EQ(
        error_text<c10::NotImplementedError>([&] { x.resize_({2, 2}); }),
        "[aten::resize_] cannot change f32[4,2] @ mesh(a=2) {S(0)} in place. Make a new distributed tensor with "
        "from_local or distribute_tensor.");
    expect_equal(full_tensor(x), global);
  });
}

TEST(InPlaceView, ATensorIsResizedToTheSizesThatItHas) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    auto x = distribute_tensor(global, mesh, {Shard(0)});
    EXPECT_TRUE(x.resize_({4, 2}).is_same(x));
    EXPECT_TRUE(x.resize_as_(x.clone()).is_same(x));
    expect_equal(full_tensor(x), global);
    EXPECT_THROW(x.resize_as_(x.sum()), c10::NotImplementedError);
    // Factories resize what they store in.
    at::randn_out(x, {4, 2});
    EXPECT_EQ(spec_of(x)->layout(), Layout{Shard(0)});
  });
}

TEST(InPlaceView, OnlyADistributedTensorTakesThePlaceOfAnother) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 2});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    expect_contains(error_text<c10::NotImplementedError>([&] { x.set_(); }), "[aten::set_] cannot change f32[4,2]");
    expect_contains(
        error_text<c10::TypeError>([&] { x.set_(at::ones({4, 2})); }),
        "[aten::set_] two distributed tensors are required, but got a plain source for a distributed tensor");
    const auto plain = at::ones({2});
    expect_contains(error_text([&] { plain.set_(x); }), "but got a distributed source for a plain tensor");
    expect_equal(full_tensor(x), global);
    const auto other = distribute_tensor(global.t(), mesh, {Shard(1)});
    x.set_(other);
    other.add_(1);
    expect_equal(full_tensor(x), global.t() + 1);
  });
}

} // namespace in_place_view_test

} // namespace weft
