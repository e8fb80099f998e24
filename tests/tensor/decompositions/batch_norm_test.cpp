#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/comm/comm_log.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace batch_norm_test {
using namespace weft::testing;

/// Input, weight, bias, running mean and running variance. Five samples are uneven on two ranks, and on (2, 2) the last
/// holds none.
struct Tensors {
  at::Tensor input;
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
};

at::Tensor numbers(c10::IntArrayRef sizes, double scale) {
  return at::arange(c10::multiply_integers(sizes), at::kDouble).mul(scale).sin().view(sizes);
}

Tensors plain_tensors() {
  return {
      numbers({5, 4, 3}, 2.4) + 3, numbers({4}, 1.3) + 2, numbers({4}, 0.7), numbers({4}, 1.9), numbers({4}, 3.1) + 2};
}

/// Distributes copies of the plain tensors: the input with the given layout, the others with the layout of its
/// channels.
Tensors on(const DeviceMesh& mesh, const Tensors& plain, const Layout& layout) {
  const auto replicated = [&](const at::Tensor& tensor) {
    return distribute_tensor(tensor.clone(), mesh, Layout(Placements(mesh.ndim(), Replicate())));
  };
  return {
      distribute_tensor(plain.input.clone(), mesh, layout), replicated(plain.weight), replicated(plain.bias),
      replicated(plain.running_mean), replicated(plain.running_var)};
}

void expect_near(const at::Tensor& actual, const at::Tensor& expected, const char* what) {
  const auto value = full_tensor(actual);
  EXPECT_EQ(value.scalar_type(), expected.scalar_type()) << what;
  EXPECT_TRUE(at::allclose(value, expected, 1e-9, 1e-9)) << what << "\n" << value << "\nis not\n" << expected;
}

using Call = std::function<Values(const Tensors&)>;

/// Every layout of the input: results and running statistics are those of a single device.
void expect_as_single_device(const Call& call, size_t compared) {
  auto plain = plain_tensors();
  const auto expected = call(plain);
  on_all_layouts(3, {Replicate(), Shard(0), Shard(1), Shard(2)}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto tensors = on(mesh, plain_tensors(), layout);
    const auto actual = call(tensors);
    for (size_t i = 0; i < compared; ++i) {
      expect_near(actual[i], expected[i], std::to_string(i).c_str());
    }
    EXPECT_EQ(as_dtensor(actual[0])->spec()->layout(), layout);
    expect_near(tensors.running_mean, plain.running_mean, "running mean");
    expect_near(tensors.running_var, plain.running_var, "running variance");
  });
}

template <class Tuple>
Values values_of(const Tuple& results) {
  return std::apply([](const auto&... each) -> Values { return {each...}; }, results);
}

TEST(BatchNorm, OfAShardedBatchIsThatOfTheGlobalOne) {
  expect_as_single_device(
      [](const Tensors& t) {
        return values_of(
            at::native_batch_norm(t.input, t.weight, t.bias, t.running_mean, t.running_var, true, 0.1, 1e-5));
      },
      3);
  expect_as_single_device(
      [](const Tensors& t) { return values_of(at::native_batch_norm(t.input, {}, {}, {}, {}, true, 0.1, 1e-5)); }, 3);
}

TEST(BatchNorm, EveryFormOfTheOperatorExchangesMoments) {
  expect_as_single_device(
      [](const Tensors& t) {
        auto mean = t.running_mean;
        auto variance = t.running_var;
        return values_of(at::_native_batch_norm_legit(t.input, t.weight, t.bias, mean, variance, true, 0.1, 1e-5));
      },
      3);
  expect_as_single_device(
      [](const Tensors& t) {
        return values_of(at::_native_batch_norm_legit(t.input, t.weight, t.bias, true, 0.1, 1e-5));
      },
      3);
  expect_as_single_device(
      [](const Tensors& t) {
        auto mean = t.running_mean;
        auto variance = t.running_var;
        return values_of(at::_batch_norm_with_update(t.input, t.weight, t.bias, mean, variance, 0.1, 1e-5));
      },
      3);
}

TEST(BatchNorm, TheFunctionalFormsGiveUpdatedStatistics) {
  const auto plain = plain_tensors();
  const auto expected = at::_native_batch_norm_legit_functional(
      plain.input, plain.weight, plain.bias, plain.running_mean, plain.running_var, true, 0.1, 1e-5);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto t = on(mesh, plain, {Shard(0)});
    const auto legit = values_of(at::_native_batch_norm_legit_functional(
        t.input, t.weight, t.bias, t.running_mean, t.running_var, true, 0.1, 1e-5));
    const auto update = values_of(
        at::_batch_norm_with_update_functional(t.input, t.weight, t.bias, t.running_mean, t.running_var, 0.1, 1e-5));
    const auto wanted = values_of(expected);
    for (size_t i = 0; i < wanted.size(); ++i) {
      expect_near(legit[i], wanted[i], "legit");
      expect_near(update[i < 3 ? i : i + 1], wanted[i], "update");
    }
    expect_near(t.running_mean, plain.running_mean, "unchanged");
    EXPECT_EQ(as_dtensor(legit[0])->spec()->layout(), Layout({Shard(0)}));
  });
}

TEST(BatchNorm, InEvaluationNothingIsSentAlsoIfARankHoldsNothing) {
  const auto plain = plain_tensors();
  const auto expected = std::get<0>(at::native_batch_norm(
      plain.input, plain.weight, plain.bias, plain.running_mean, plain.running_var, false, 0.1, 1e-5));
  on_mesh({4}, [&](const DeviceMesh& mesh) {
    auto t = on(mesh, plain, {Shard(0)});
    t.input.requires_grad_();
    const CommLog log(mesh);
    const auto output = at::batch_norm(
        t.input, t.weight, t.bias, t.running_mean, t.running_var, false, 0.1, 1e-5, /*cudnn_enabled=*/false);
    output.backward(output.detach());
    EXPECT_EQ(log.calls(), 0) << log.to_string();
    expect_near(output.detach(), expected, "output");
  });
}

TEST(BatchNorm, OneAllReduceForwardAndOneBackward) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    auto t = on(mesh, plain_tensors(), {Shard(0)});
    for (auto* tensor : {&t.input, &t.weight, &t.bias}) {
      tensor->requires_grad_();
    }
    const CommLog log(mesh);
    const auto output = at::batch_norm(
        t.input, t.weight, t.bias, t.running_mean, t.running_var, true, 0.1, 1e-5, /*cudnn_enabled=*/false);
    EXPECT_EQ(log.calls(), 1) << log.to_string();
    EXPECT_EQ(log.rows()[0].collective, Collective::AllReduce);
    EXPECT_EQ(log.bytes(), 2 * 4 * 8) << "two f64 per channel";
    output.backward(output.detach());
    EXPECT_EQ(log.calls(), 2) << log.to_string();
    EXPECT_EQ(log.rows()[1].collective, Collective::AllReduce);
  });
}

TEST(BatchNorm, ShardedChannelsExchangeNothing) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto plain = plain_tensors();
    const auto sharded = [&](const at::Tensor& tensor) { return distribute_tensor(tensor.clone(), mesh, {Shard(0)}); };
    const auto input = distribute_tensor(plain.input.clone(), mesh, {Shard(1)}).requires_grad_();
    const auto weight = sharded(plain.weight);
    const auto bias = sharded(plain.bias);
    const auto running_mean = sharded(plain.running_mean);
    const auto running_var = sharded(plain.running_var);
    const CommLog log(mesh);
    const auto output =
        at::batch_norm(input, weight, bias, running_mean, running_var, true, 0.1, 1e-5, /*cudnn_enabled=*/false);
    output.backward(output.detach());
    EXPECT_EQ(log.calls(), 0) << log.to_string();
  });
}

TEST(BatchNorm, RunningStatisticsMayHaveAnotherLayoutThanTheChannels) {
  auto plain = plain_tensors();
  const auto expected = std::get<0>(at::native_batch_norm(
      plain.input, plain.weight, plain.bias, plain.running_mean, plain.running_var, true, 0.1, 1e-5));
  on_all_layouts(3, {Replicate(), Shard(0), Shard(1)}, [&](const DeviceMesh& mesh, const Layout& layout) {
    auto t = on(mesh, plain_tensors(), layout);
    const Layout sharded(Placements(mesh.ndim(), Shard(0)));
    t.running_mean = redistribute(t.running_mean, sharded);
    t.running_var = redistribute(t.running_var, sharded);
    const auto output =
        std::get<0>(at::native_batch_norm(t.input, t.weight, t.bias, t.running_mean, t.running_var, true, 0.1, 1e-5));
    expect_near(output, expected, "output");
    expect_near(t.running_mean, plain.running_mean, "running mean");
    expect_near(t.running_var, plain.running_var, "running variance");
  });
}

/// A difference of squares in f32 would be wrong in the first digit.
TEST(BatchNorm, ALargeMeanDoesNotCancelTheVariance) {
  const auto plain = (numbers({64, 2}, 2.4) + 1e3).to(at::kFloat);
  const auto exact = plain.to(at::kDouble).var(at::OptionalIntArrayRef({0}), 0);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto input = distribute_tensor(plain, mesh, {Shard(0)});
    const auto inverse = full_tensor(std::get<2>(at::native_batch_norm(input, {}, {}, {}, {}, true, 0.1, 0)));
    EXPECT_TRUE(at::allclose(inverse.to(at::kDouble).pow(-2), exact, 2e-5, 0)) << inverse << exact;
  });
}

TEST(BatchNorm, DtypesThatDoNotFitAreRefusedOnEveryRank) {
  on_mesh({4}, [](const DeviceMesh& mesh) {
    const auto t = on(mesh, plain_tensors(), {Shard(0)});
    EXPECT_EQ(
        error_text<c10::TypeError>(
            [&] { at::native_batch_norm(t.input, t.weight.to(at::kFloat), {}, {}, {}, true, 0.1, 1e-5); }),
        "[batch_norm] weight, bias and running statistics must have the input's dtype Double (or be f32 with 16-bit "
        "values), but got Float. Convert them.");
  });
}

} // namespace batch_norm_test

} // namespace weft
