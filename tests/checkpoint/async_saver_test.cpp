#include "weft/checkpoint/async_saver.h"

#include "tests/support/error_text.h"
#include "weft/checkpoint/load_files.h"
#include "weft/checkpoint/manifest.h"
#include "weft/comm/collectives.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace weft {

namespace async_saver_test {

namespace fs = std::filesystem;
using testing::error_text;
using testing::expect_contains;

std::string new_path(const std::string& name) {
  const auto path = fs::path(::testing::TempDir()) / ("weft_async_saver_" + name);
  fs::remove_all(path);
  return path.string();
}

at::Tensor loaded(const std::string& folder) {
  const auto stored = load_manifest(folder, "load").stored;
  const auto result = at::empty(stored.tensors.at("x").sizes);
  load_files(stored, {{"x", {result, nullptr}}}, {});
  return result;
}

TEST(AsyncSaver, WritesWhatTheTensorsWereWhenItWasCalled) {
  const auto run = new_path("values");
  run_on_ranks(2, [&](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    AsyncSaver saver(RankTexts(init_device_mesh("cpu", {2}, {"async_save"})));
    const auto x = at::zeros({1000, 100});
    const auto spec = TensorSpec::make(mesh, {Shard(0)}, {2000, 100}, at::kFloat);
    for (int64_t step = 0; step < 4; ++step) {
      x.fill_(static_cast<double>(10 * step + rank));
      saver.save({.tensors = {{"x", {x, spec}}}, .values = {}}, c10::str(run, "/step_", step), {});
      x.fill_(-1);
      all_reduce(at::ones({10}), mesh, 0, ReduceOp::Sum).wait(); // training goes on, on a group of its own
    }
    saver.wait();
    EXPECT_FALSE(saver.is_saving());
  });
  for (int64_t step = 0; step < 4; ++step) {
    const auto x = loaded(c10::str(run, "/step_", step));
    EXPECT_TRUE(x.narrow(0, 0, 1000).eq(10 * step).all().item<bool>());
    EXPECT_TRUE(x.narrow(0, 1000, 1000).eq(10 * step + 1).all().item<bool>());
  }
}

TEST(AsyncSaver, AnErrorIsRaisedByTheNextWait) {
  AsyncSaver saver(RankTexts{DeviceMesh()});
  saver.save({.tensors = {{"x", {at::ones({2}), nullptr}}}, .values = {}}, "/proc/no/such", {});
  expect_contains(error_text<c10::ValueError>([&] { saver.wait(); }), "[save] /proc/no/such: a folder is required");
  saver.wait();
  const auto folder = new_path("error");
  saver.save({.tensors = {{"x", {at::ones({2}), nullptr}}}, .values = {}}, folder, {});
  saver.wait();
  EXPECT_TRUE(at::equal(loaded(folder), at::ones({2})));
}

#ifdef WEFT_TEST_CUDA
at::Tensor loaded_to_cuda(const std::string& folder, const std::string& name) {
  const auto stored = load_manifest(folder, "load").stored;
  const auto& tensor = stored.tensors.at(name);
  const auto result = at::empty(tensor.sizes, at::TensorOptions(tensor.dtype).device(at::kCUDA));
  load_files(stored, {{name, {result, nullptr}}}, {});
  return result;
}

/// The values are those that the stream computes before the save, which it has not begun with when save() is called.
TEST(AsyncSaver, OnCudaWritesWhatTheStreamHasComputed) {
  const auto run = new_path("cuda");
  const c10::impl::VirtualGuardImpl device(c10::kCUDA);
  const auto usual = device.getStream(c10::Device(c10::kCUDA, 0));
  const auto of_pool = device.getStreamFromGlobalPool(c10::Device(c10::kCUDA, 0));
  const auto mean = at::full({4096, 4096}, 1.0 / 4096, at::kCUDA);
  usual.synchronize();
  AsyncSaver saver(RankTexts{DeviceMesh()});
  for (int64_t step = 0; step < 6; ++step) {
    device.exchangeStream(step < 3 ? usual : of_pool);
    auto ones = at::ones({4096, 4096}, at::kCUDA);
    for (int i = 0; i < 20; ++i) {
      ones = at::mm(mean, ones);
    }
    const auto x = ones.narrow(0, 0, 500) * static_cast<double>(step);
    const auto half = x.to(at::kBFloat16);
    const auto number = x.select(0, 3).select(0, 4).clone();
    saver.save(
        {.tensors =
             {{"x", {x, nullptr}},
              {"columns", {x.t(), nullptr}},
              {"half", {half, nullptr}},
              {"number", {number, nullptr}}},
         .values = {}},
        c10::str(run, "/step_", step), {});
    x.fill_(-1); // training goes on
    half.fill_(-1);
    number.fill_(-1);
  }
  saver.wait();
  device.exchangeStream(usual);
  for (int64_t step = 0; step < 6; ++step) {
    for (const auto* name : {"x", "columns", "half", "number"}) {
      const auto values = loaded_to_cuda(c10::str(run, "/step_", step), name);
      EXPECT_TRUE(values.eq(step).all().item<bool>()) << name << " of step " << step;
    }
  }
  EXPECT_EQ(loaded_to_cuda(run + "/step_0", "columns").sizes(), c10::IntArrayRef({4096, 500}));
}
#endif

} // namespace async_saver_test

} // namespace weft
