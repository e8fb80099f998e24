#include "weft/tensor/impl/dtensor_impl.h"
#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

namespace weft {

namespace dtensor_impl_test {
using weft::testing::error_text;
using weft::testing::expect_contains;

SpecPtr sharded_spec() {
  return TensorSpec::parse("f64[4,3] @ mesh(a=2) {S(0)}");
}

at::Tensor sharded(const at::Tensor& local) {
  return make_dtensor(local, sharded_spec());
}

TEST(DTensorImpl, HasTheGlobalSizesAndTheDtypeAndDeviceOfItsLocalTensor) {
  const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
  EXPECT_EQ(tensor.sizes(), c10::IntArrayRef({4, 3}));
  EXPECT_EQ(tensor.strides(), c10::IntArrayRef({3, 1}));
  EXPECT_EQ(tensor.numel(), 12);
  EXPECT_EQ(tensor.scalar_type(), at::kDouble);
  EXPECT_EQ(tensor.device(), c10::Device(c10::kCPU));
  EXPECT_TRUE(tensor.is_contiguous());
}

TEST(DTensorImpl, HasTheStridesOfItsSpec) {
  const auto spec = TensorSpec::parse("f32[4,3|1,4] @ mesh(a=2) {S(0)}");
  const auto tensor = make_dtensor(at::zeros({3, 2}).t(), spec);
  EXPECT_EQ(tensor.strides(), c10::IntArrayRef({1, 4}));
  EXPECT_FALSE(tensor.is_contiguous());
}

TEST(DTensorImpl, KeepsTheLazyConjugateAndNegativeBitsOfItsLocalTensor) {
  const auto spec = TensorSpec::parse("c64[4,3] @ mesh(a=2) {S(0)}");
  const auto local = at::ones({2, 3}, at::kComplexFloat);
  EXPECT_FALSE(make_dtensor(local, spec).is_conj());
  const auto conjugate = make_dtensor(local.conj(), spec);
  EXPECT_TRUE(conjugate.is_conj());
  EXPECT_TRUE(conjugate.detach().is_conj());
  EXPECT_FALSE(make_dtensor_like(*as_dtensor(conjugate), at::Tensor(local)).is_conj());
  const auto other = make_dtensor(local, spec);
  other.unsafeGetTensorImpl()->shallow_copy_from(conjugate.getIntrusivePtr());
  EXPECT_TRUE(other.is_conj());
  EXPECT_TRUE(make_dtensor(at::imag(local.conj()), TensorSpec::parse("f32[4,3] @ mesh(a=2) {S(0)}")).is_neg());
}

TEST(DTensorImpl, AccessToItsStorageIsAnError) {
  const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
  EXPECT_FALSE(tensor.has_storage());
  expect_contains(error_text([&] { tensor.storage(); }), "Cannot access storage of weft::DTensorImpl");
  expect_contains(error_text([&] { tensor.data_ptr(); }), "Cannot access data pointer of Tensor");
}

TEST(DTensorImpl, ACopyThatIsDetachedHasTheSameLocalTensorAndSpec) {
  const auto local = at::arange(6, at::kDouble).view({2, 3});
  auto tensor = sharded(local);
  tensor.set_requires_grad(true);
  const auto copy = tensor.variable_data();
  ASSERT_TRUE(is_dtensor(copy));
  EXPECT_FALSE(copy.requires_grad());
  EXPECT_EQ(as_dtensor(copy)->spec(), sharded_spec());
  EXPECT_TRUE(as_dtensor(copy)->local().is_same(local));
  EXPECT_EQ(copy.sizes(), tensor.sizes());
}

TEST(DTensorImpl, ACopyHasTheVersionItIsGiven) {
  const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
  const c10::VariableVersion version(7);
  const auto copy =
      tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(version, /*allow_tensor_metadata_change=*/true);
  EXPECT_EQ(copy->version_counter().current_version(), 7);
  const auto moved = tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
      c10::VariableVersion(9), /*allow_tensor_metadata_change=*/false);
  EXPECT_EQ(moved->version_counter().current_version(), 9);
}

TEST(DTensorImpl, SettingItsDataTakesLocalTensorSpecAndSizesOfTheOther) {
  const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
  const auto local = at::ones({8});
  const auto other = make_dtensor(local, TensorSpec::parse("f32[8] @ mesh(a=2) {R}"));
  tensor.unsafeGetTensorImpl()->shallow_copy_from(other.getIntrusivePtr());
  EXPECT_TRUE(as_dtensor(tensor)->local().is_same(local));
  EXPECT_EQ(as_dtensor(tensor)->spec(), as_dtensor(other)->spec());
  EXPECT_EQ(tensor.sizes(), c10::IntArrayRef({8}));
  EXPECT_EQ(tensor.strides(), c10::IntArrayRef({1}));
  EXPECT_EQ(tensor.numel(), 8);
  EXPECT_EQ(tensor.scalar_type(), at::kFloat);
}

TEST(DTensorImpl, SettingItsDataTakesTheDeviceOfTheOther) {
  const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
  const auto other = sharded(at::zeros({2, 3}, at::device(at::kMeta).dtype(at::kDouble)));
  tensor.unsafeGetTensorImpl()->shallow_copy_from(other.getIntrusivePtr());
  EXPECT_TRUE(tensor.is_meta());
}

TEST(DTensorImpl, IsAnInferenceTensorIfItsDataIsOne) {
  const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
  const auto put = [&](const at::Tensor& other) {
    tensor.unsafeGetTensorImpl()->shallow_copy_from(other.getIntrusivePtr());
  };
  {
    const c10::InferenceMode inference;
    put(sharded(at::ones({2, 3}, at::kDouble)));
  }
  EXPECT_TRUE(tensor.is_inference());
  put(sharded(at::ones({2, 3}, at::kDouble)));
  EXPECT_FALSE(tensor.is_inference());
}

TEST(DTensorImpl, APlainTensorCannotBeItsData) {
  const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
  EXPECT_EQ(
      error_text<c10::TypeError>(
          [&] { tensor.unsafeGetTensorImpl()->shallow_copy_from(at::ones({2}).getIntrusivePtr()); }),
      "[DTensorImpl] only a distributed tensor can be put in the place of one, but got a plain one of shape [2]. Make "
      "one "
      "with from_local or distribute_tensor.");
}

TEST(DTensorImpl, ACopyMadeInInferenceModeIsAsItsOriginal) {
  const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
  const c10::InferenceMode inference;
  EXPECT_FALSE(tensor.variable_data().is_inference());
  EXPECT_TRUE(sharded(at::zeros({2, 3}, at::kDouble)).variable_data().is_inference());
}

TEST(DTensorImpl, ACopyOfAnInferenceTensorHasAVersionOutsideOfInferenceMode) {
  const auto made = [](const auto& make) {
    const c10::InferenceMode inference;
    return make();
  };
  for (const bool is_distributed : {false, true}) {
    const auto original = made([&] {
      const auto local = at::zeros({2, 3}, at::kDouble);
      return is_distributed ? sharded(local) : local;
    });
    EXPECT_FALSE(original.unsafeGetTensorImpl()->version_counter().enabled());
    EXPECT_TRUE(original.variable_data().is_inference());
    EXPECT_TRUE(original.variable_data().unsafeGetTensorImpl()->version_counter().enabled());
    const auto copy = made([&] { return original.variable_data(); });
    EXPECT_FALSE(copy.unsafeGetTensorImpl()->version_counter().enabled());
  }
}

TEST(DTensorImpl, APlainOrUndefinedTensorIsNone) {
  EXPECT_FALSE(is_dtensor(at::zeros({2})));
  EXPECT_FALSE(is_dtensor(at::Tensor()));
  EXPECT_EQ(as_dtensor(at::zeros({2})), nullptr);
  EXPECT_EQ(as_dtensor(at::Tensor()), nullptr);
  const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
  EXPECT_TRUE(is_dtensor(tensor));
  EXPECT_EQ(as_dtensor(tensor), tensor.unsafeGetTensorImpl());
}

TEST(DTensorImpl, ALocalTensorThatACollectiveWritesIsWaitedForOnce) {
  const auto local = at::ones({2, 3}, at::kDouble);
  int waits = 0;
  const auto tensor =
      make_dtensor(AsyncTensor(local, Pending([&waits] { ++waits; })), sharded_spec(), c10::Device(c10::kCPU));
  EXPECT_EQ(tensor.size(0), 4);
  EXPECT_EQ(waits, 0);
  EXPECT_TRUE(as_dtensor(tensor)->local().is_same(local));
  EXPECT_TRUE(as_dtensor(tensor)->local().is_same(local));
  EXPECT_EQ(waits, 1);
}

TEST(LazyValue, ThreadsThatMakeItAtOnceGetTheSameValue) {
  for (int round = 0; round < 200; ++round) {
    LazyValue<std::string> value;
    EXPECT_EQ(value.find(), nullptr);
    std::latch ready(2);
    std::string* made[2];
    const auto make = [&](int i) {
      ready.arrive_and_wait();
      made[i] = &value.make();
    };
    std::thread other(make, 1);
    make(0);
    other.join();
    EXPECT_EQ(made[0], made[1]);
    EXPECT_EQ(value.find(), made[0]);
    value.reset();
    EXPECT_EQ(value.find(), nullptr);
  }
}

TEST(DTensorImpl, OneThreadKeepsALocalTensorWhileAnotherSharesAMove) {
  for (int round = 0; round < 200; ++round) {
    const auto tensor = sharded(at::zeros({2, 3}, at::kDouble));
    auto* impl = as_dtensor(tensor);
    const auto kept = at::ones({1});
    const std::shared_ptr<SharedMove> move(
        std::make_shared<int>(0), reinterpret_cast<SharedMove*>(impl)); // any address
    std::latch ready(2);
    std::thread other([&] {
      ready.arrive_and_wait();
      impl->share_move(move);
    });
    ready.arrive_and_wait();
    impl->keep_given_local(kept);
    other.join();
    EXPECT_TRUE(impl->given_local().is_same(kept));
    EXPECT_EQ(impl->shared_move(), move);
  }
}

} // namespace dtensor_impl_test

} // namespace weft
