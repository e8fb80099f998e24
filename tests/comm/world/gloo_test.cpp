#include "weft/comm/world/gloo.h"

#include "tests/support/error_text.h"
#include "tests/support/scoped_environment.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <csignal>
#include <thread>

namespace weft {

namespace gloo_test {

using testing::error_text;
using testing::ScopedEnvironment;

constexpr std::chrono::seconds kTimeout{20};

/// Both ends of a gloo group in this process: rank 0 sends 42, rank 1 returns the received value.
float send_across() {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::thread sender([&] {
    const auto backend = make_gloo_backend(store, 0, 2, kTimeout);
    std::vector<at::Tensor> tensors = {at::full({1}, 42.0f)};
    backend->send(tensors, 1, 0)->wait();
    backend->recv(tensors, 1, 1)->wait();
  });
  std::vector<at::Tensor> tensors = {at::zeros({1})};
  const auto backend = make_gloo_backend(store, 1, 2, kTimeout);
  backend->recv(tensors, 0, 0)->wait();
  backend->send(tensors, 0, 1)->wait();
  sender.join();
  return tensors[0].item<float>();
}

TEST(Gloo, KnowsItsNameRankAndSize) {
  const auto backend = make_gloo_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1, kTimeout);
  EXPECT_EQ(backend->getBackendName(), "gloo");
  EXPECT_EQ(backend->getRank(), 0);
  EXPECT_EQ(backend->getSize(), 1);
}

TEST(Gloo, ConnectsOverTheDefaultInterface) {
  EXPECT_EQ(send_across(), 42);
}

TEST(Gloo, ConnectsOverTheInterfaceThatTheEnvironmentNames) {
  const ScopedEnvironment environment(ScopedEnvironment::Values{{"GLOO_SOCKET_IFNAME", "lo"}});
  EXPECT_EQ(send_across(), 42);
}

TEST(Gloo, AnInterfaceThatIsNotThereIsAnError) {
  const ScopedEnvironment environment(ScopedEnvironment::Values{{"GLOO_SOCKET_IFNAME", "no_such_interface"}});
  const auto text =
      error_text<std::exception>([] { make_gloo_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1, kTimeout); });
  EXPECT_NE(text.find("no_such_interface"), std::string::npos) << text;
}

TEST(Gloo, ARankThatDoesNotComeIsAnErrorAfterTheTimeout) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  EXPECT_NE(error_text<std::exception>([&] { make_gloo_backend(store, 0, 2, std::chrono::milliseconds(300)); }), "");
}

TEST(Gloo, APeerThatIsGoneDoesNotEndTheProcessBySignal) {
  const auto make = [] { make_gloo_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1, kTimeout); };
  std::signal(SIGPIPE, SIG_DFL);
  make();
  EXPECT_EQ(std::signal(SIGPIPE, SIG_DFL), SIG_IGN);
  const auto own_handler = [](int) {};
  std::signal(SIGPIPE, own_handler);
  make();
  EXPECT_EQ(std::signal(SIGPIPE, SIG_DFL), static_cast<void (*)(int)>(own_handler))
      << "the program's own handler stays";
}

} // namespace gloo_test

} // namespace weft
