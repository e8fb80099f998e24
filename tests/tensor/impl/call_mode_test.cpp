#include "weft/tensor/impl/call_mode.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

namespace weft {

namespace call_mode_test {
struct Counting : CallMode {
  int sines = 0;

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override {
    sines += op.schema().name() == "aten::sin" ? 1 : 0;
    op.redispatchBoxed(keys, stack);
  }
};

TEST(CallMode, SeesTheCallsOfItsThreadWhileItLasts) {
  const auto x = at::zeros({2}).requires_grad_();
  auto y = x.sin();
  {
    Counting counting;
    y = y.sin();
    y = y.add(at::ones({2}).sin());
    std::thread([&] { at::ones({2}).sin(); }).join();
    EXPECT_EQ(counting.sines, 2);
  }
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::ones({2})));
}

TEST(CallMode, TheInnermostAloneSeesThem) {
  Counting outer;
  {
    Counting inner;
    at::ones({2}).sin();
    EXPECT_EQ(inner.sines, 1);
  }
  at::ones({2}).sin();
  EXPECT_EQ(outer.sines, 1);
}

TEST(CallMode, SeesWhatOperatorsAreMadeOf) {
  struct Fills : CallMode {
    std::vector<std::string> names;
    void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override {
      names.push_back(op.schema().name());
      op.redispatchBoxed(keys, stack);
    }
  } fills;
  at::randn({3});
  EXPECT_NE(std::find(fills.names.begin(), fills.names.end(), "aten::normal_"), fills.names.end());
}

} // namespace call_mode_test

} // namespace weft
