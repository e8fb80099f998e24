#include "weft/tensor/impl/local_memory.h"
#include "tests/support/error_text.h"
#include "tests/support/new_place.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/redistribute_once.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/random.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <thread>

namespace weft {

namespace local_memory_test {
using namespace weft::testing;

/// A way to change all values of a distributed tensor.
struct Write {
  const char* name;
  std::function<void(at::Tensor x)> write;
};

at::Tensor other_like(const at::Tensor& x) {
  return x.mul(2).add(1);
}

/// Gives the tensor other memory. Its views keep the memory that it had.
const Write kReplace = {".data =", [](at::Tensor x) { x.set_data(other_like(x).detach()); }};

const std::vector<Write>& all_writes() {
  static const std::vector<Write> kAll = {
      {"add_", [](at::Tensor x) { x.add_(1); }},
      {"mul_ by a tensor", [](at::Tensor x) { x.mul_(other_like(x)); }},
      {"copy_", [](at::Tensor x) { x.copy_(other_like(x)); }},
      {"zero_", [](at::Tensor x) { x.zero_(); }},
      {"out=", [](at::Tensor x) { at::add_out(x, other_like(x), 1); }},
      {"masked_fill_", [](at::Tensor x) { x.masked_fill_(x.gt(-100), 7); }},
      {"a column", [](at::Tensor x) { x.select(1, 0).fill_(9); }},
      {"a view of a view", [](at::Tensor x) { x.unsqueeze(0).transpose(1, 2).add_(3); }},
      {"detach", [](at::Tensor x) { x.detach().add_(1); }},
      {".data", [](at::Tensor x) { at::Tensor(x.variable_data()).add_(1); }},
      {".data of a view", [](at::Tensor x) { at::Tensor(x.t().variable_data()).add_(1); }},
      {"_foreach_add_", [](at::Tensor x) { at::_foreach_add_({x}, 1); }},
      {"_foreach_copy_", [](at::Tensor x) { at::_foreach_copy_({x}, {other_like(x)}); }},
      {"_foreach_mul_ of two", [](at::Tensor x) { at::_foreach_mul_({other_like(x), x}, 3); }},
      {"_fused_sgd_",
       [](at::Tensor x) {
         at::_fused_sgd_(
             {x}, {other_like(x)}, {}, /*weight_decay=*/0, /*momentum=*/0, /*lr=*/0.1, /*dampening=*/0,
             /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/true);
       }},
      {"uniform_", [](at::Tensor x) { x.uniform_(5, 6); }},
      {"to_local", [](at::Tensor x) { to_local(x).add_(1); }},
  };
  return kAll;
}

enum class Mode { Grad, NoGrad, Inference };

void in_mode(Mode mode, const std::function<void()>& body) {
  const c10::AutoGradMode grad(mode == Mode::Grad);
  const c10::InferenceMode inference(mode == Mode::Inference);
  body();
}

at::Tensor sample(const DeviceMesh& mesh, const Placement& placement) {
  return distribute_tensor(whole_numbers({4, 3}), mesh, {placement});
}

/// Calls fn with every way to write, in every mode, and a tensor to write to.
void on_all_writes(const std::function<void(const Write&, Mode, const at::Tensor&)>& fn, bool is_activation) {
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    for (const auto mode : {Mode::Grad, Mode::NoGrad, Mode::Inference}) {
      for (const auto& write : all_writes()) {
        in_mode(mode, [&] {
          const auto x = sample(mesh, Shard(0));
          fn(write, mode, is_activation ? x * 1 : x);
        });
      }
    }
  });
}

TEST(LocalMemory, AViewThatWasCopiedIsNotReadAfterAWriteOfAnyKind) {
  on_all_writes(
      [](const Write& write, Mode mode, const at::Tensor& x) {
        const auto copied = x.narrow(0, 1, 2);
        ASSERT_TRUE(as_dtensor(copied)->is_copy_of_base());
        write.write(x);
        const auto text = error_text<c10::ValueError>([&] { copied.add(1); });
        EXPECT_NE(text.find("has changed since"), std::string::npos)
            << write.name << " in mode " << static_cast<int>(mode) << ": " << text;
        EXPECT_THROW(full_tensor(copied), c10::ValueError) << write.name;
        EXPECT_THROW(copied.unsqueeze(0), c10::ValueError) << write.name;
        EXPECT_THROW(at::dropout(copied, 0.5, /*train=*/true), c10::ValueError) << write.name;
        EXPECT_THROW(at::multinomial(copied, 1), c10::ValueError) << write.name;
        expect_equal(full_tensor(x.narrow(0, 1, 2)), full_tensor(x).narrow(0, 1, 2)); // taken again
      },
      /*is_activation=*/false);
}

TEST(LocalMemory, AViewThatWasCopiedIsReadWhileNothingIsWritten) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto mode : {Mode::Grad, Mode::NoGrad, Mode::Inference}) {
      in_mode(mode, [&] {
        const auto x = sample(mesh, Shard(0));
        const auto copied = x.narrow(0, 1, 2);
        const auto of_another = x.narrow(0, 0, 1).detach();
        other_like(x).add_(1); // memory of its own
        x.mul(2);
        full_tensor(x);
        expect_equal(full_tensor(copied + 1), whole_numbers({4, 3}).narrow(0, 1, 2) + 1);
        expect_equal(full_tensor(of_another), whole_numbers({4, 3}).narrow(0, 0, 1));
      });
    }
  });
}

TEST(LocalMemory, AViewThatWasCopiedKeepsTheValuesOfMemoryThatItsBaseHasLeft) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto mode : {Mode::Grad, Mode::NoGrad, Mode::Inference}) {
      in_mode(mode, [&] {
        const auto x = sample(mesh, Shard(0));
        const auto copied = x.narrow(0, 1, 2);
        kReplace.write(x);
        expect_equal(full_tensor(copied), whole_numbers({4, 3}).narrow(0, 1, 2)); // as a view of a plain tensor does
      });
    }
  });
}

/// Ways to write to a plain tensor that torch counts.
const std::vector<Write>& all_plain_writes() {
  static const std::vector<Write> kAll = {
      {"mul_", [](at::Tensor local) { local.mul_(2); }},
      {"copy_", [](at::Tensor local) { local.copy_(at::ones_like(local)); }},
      {"out=", [](at::Tensor local) { at::add_out(local, local, 1); }},
      {"detach", [](at::Tensor local) { local.detach().mul_(2); }},
      {"a view", [](at::Tensor local) { local.unsqueeze(0).fill_(2); }},
      {"an empty view", [](at::Tensor local) { local.narrow(1, 0, 0).fill_(2); }},
      {"_foreach_mul_", [](at::Tensor local) { at::_foreach_mul_({local.detach()}, 2); }},
  };
  return kAll;
}

const char* const kLostWrite =
    " a view that had to be redistributed, and to_local() or full_tensor() of such a view was written to, which does "
    "not "
    "change the tensor it was taken of. Write to the distributed tensor or to its own to_local(), or clone what "
    "to_local() gives before writing to it.";

void expect_lost_write(const std::string& what, const std::function<void()>& body) {
  const auto text = error_text<c10::ValueError>(body);
  EXPECT_NE(text.find(kLostWrite), std::string::npos) << what << ": " << text;
}

TEST(LocalMemory, NoTensorIsReadAfterAWriteToTheLocalTensorOfACopiedView) {
  // Of three ranks the last holds nothing of the view.
  on_mesh({3}, [](const DeviceMesh& mesh) {
    for (const auto mode : {Mode::Grad, Mode::NoGrad, Mode::Inference}) {
      for (const auto& write : all_plain_writes()) {
        in_mode(mode, [&] {
          const auto what = c10::str(write.name, " in mode ", static_cast<int>(mode));
          const auto x = sample(mesh, Shard(0));
          const auto detached = x.detach();
          const auto transposed = x.t();
          const auto copied = x.narrow(0, 1, 2);
          const auto other = x.narrow(0, 0, 3).detach();
          ASSERT_TRUE(as_dtensor(copied)->is_copy_of_base() && as_dtensor(other)->is_copy_of_base());
          const auto local = to_local(copied);
          full_tensor(x); // nothing is lost yet
          write.write(local);
          for (const auto& tensor : {x, detached, transposed, copied, other}) {
            expect_lost_write(what, [&] { tensor.add(1); });
            expect_lost_write(what, [&] { full_tensor(tensor); });
            expect_lost_write(what, [&] { to_local(tensor); });
            expect_lost_write(what, [&] { at::_foreach_add({tensor}, 1); });
            expect_lost_write(what, [&] { at_new_place(tensor, {Replicate()}); });
            expect_lost_write(what, [&] { at::dropout(tensor, 0.5, /*train=*/true); });
            expect_lost_write(what, [&] { at::multinomial(tensor, 1); });
          }
          expect_equal(full_tensor(sample(mesh, Shard(0)) * 1), whole_numbers({4, 3}));
        });
      }
    }
  });
}

TEST(LocalMemory, AWriteToWhatIsMadeOfTheLocalTensorOfACopiedViewIsNoticed) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = sample(mesh, Shard(0));
    const auto copied = x.narrow(0, 1, 2).select(0, 0);
    const auto again = from_local(to_local(copied), mesh, spec_of(copied)->layout(), copied.sizes());
    expect_equal(full_tensor(x), whole_numbers({4, 3}));
    at::Tensor(again).mul_(2);
    expect_lost_write("from_local", [&] { x.sum(); });
    const auto y = sample(mesh, Shard(0));
    full_tensor(redistribute(y.narrow(0, 1, 2), {Replicate()}).narrow(0, 0, 1)).clone().mul_(2);
    expect_equal(full_tensor(y), whole_numbers({4, 3}));
  });
}

TEST(LocalMemory, ATensorThatIsGivenOtherMemoryMissesNoWrites) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = sample(mesh, Shard(0));
    to_local(x.narrow(0, 1, 2)).mul_(2);
    x.set_data(sample(mesh, Shard(0)));
    expect_equal(full_tensor(x), whole_numbers({4, 3}));
  });
}

TEST(LocalMemory, AGradientIsNotMadeOfATensorThatMissesWrites) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto leaf = sample(mesh, Shard(0)).set_requires_grad(true);
    const auto x = leaf * 2;
    const auto loss = (x * x).sum();
    to_local(x.narrow(0, 1, 2)).detach().mul_(2);
    expect_lost_write("backward", [&] { loss.backward(); });
  });
}

TEST(LocalMemory, InInferenceModeViewsOfANormalTensorAreNormal) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto& placement : {Replicate(), Shard(0)}) {
      auto x = sample(mesh, placement);
      const auto before = x._version();
      {
        const c10::InferenceMode inference;
        for (const auto& view : {x.view({-1}), x.detach(), x.narrow(0, 1, 2), x.t(), x.select(1, 0), x.alias()}) {
          EXPECT_FALSE(view.is_inference());
        }
        x.view({-1}).add_(1);
        EXPECT_GT(x._version(), before);
        expect_equal(full_tensor(x), whole_numbers({4, 3}) + 1);
        x.set_data(x.detach() * 2);
      }
      expect_equal(full_tensor(x), (whole_numbers({4, 3}) + 1) * 2);
      at::Tensor made;
      {
        const c10::InferenceMode inference;
        made = sample(mesh, placement);
      }
      EXPECT_TRUE(made.view({-1}).is_inference());
      EXPECT_TRUE(made.narrow(0, 1, 2).is_inference());
    }
  });
}

TEST(LocalMemory, ACopyOfACopiedViewStaysStale) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = sample(mesh, Shard(0));
    const auto before = x.narrow(0, 1, 2).detach();
    auto put = sample(mesh, Shard(0)).narrow(0, 1, 2).clone();
    at::_foreach_add_({x}, 1);
    EXPECT_THROW(before.add(1), c10::ValueError);
    EXPECT_THROW(before.detach().add(1), c10::ValueError);
    EXPECT_THROW(at::Tensor(before.variable_data()).add(1), c10::ValueError);
    put.set_data(before);
    EXPECT_THROW(put.add(1), c10::ValueError);
  });
}

TEST(LocalMemory, WhatIsSharedByRedistributeOnceIsNotReadAfterAWriteOfAnyKind) {
  on_all_writes(
      [](const Write& write, Mode /*mode*/, const at::Tensor& x) {
        for (const auto& placement : {Replicate(), Shard(1)}) {
          for (const auto* each : {&write, &kReplace}) {
            const auto first = at_new_place(x, {placement});
            each->write(x);
            expect_equal(full_tensor(at_new_place(x, {placement})), full_tensor(x));
            EXPECT_FALSE(first.is_same(at_new_place(x, {placement}))) << each->name;
          }
        }
      },
      /*is_activation=*/true);
}

TEST(LocalMemory, WhatIsSharedByRedistributeOnceMayBeWrittenTo) {
  on_all_writes(
      [](const Write& write, Mode /*mode*/, const at::Tensor& x) {
        write.write(at_new_place(x, {Replicate()}));
        expect_equal(full_tensor(at_new_place(x, {Replicate()})), whole_numbers({4, 3}));
      },
      /*is_activation=*/true);
}

TEST(LocalMemory, AutogradSeesWritesToLists) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    for (const auto& write : all_writes()) {
      const std::string name = write.name;
      if (!name.starts_with("_foreach")) {
        continue;
      }
      const auto w = sample(mesh, Shard(0)).set_requires_grad(true);
      const auto x = sample(mesh, Shard(0));
      const auto y = (x * w).sum(); // saves x
      const auto before = x._version();
      {
        const c10::NoGradGuard no_grad;
        write.write(x);
      }
      EXPECT_GT(x._version(), before) << name;
      EXPECT_NE(
          error_text<c10::Error>([&] { y.backward(); }).find("modified by an inplace operation"), std::string::npos)
          << name;
    }
  });
}

TEST(LocalMemory, ThreadsThatAskForItAtOnceGetTheSame) {
  for (int round = 0; round < 50; ++round) {
    const LazyLocalMemory memory;
    std::vector<LocalMemoryPtr> found(4);
    std::vector<std::thread> threads;
    for (auto& each : found) {
      threads.emplace_back([&memory, &each] { each = memory.get(); });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    for (const auto& each : found) {
      EXPECT_EQ(each, memory.get());
    }
  }
}

TEST(LocalMemory, ThreadsThatAskForAVersionAtOnceGetTheSame) {
  for (int round = 0; round < 50; ++round) {
    LazyVersion version;
    EXPECT_EQ(version.current(), 0);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&version] {
        auto shared = version.get();
        shared.bump();
      });
    }
    for (auto& thread : threads) {
      thread.join();
    }
    EXPECT_EQ(version.current(), 4);
  }
}

} // namespace local_memory_test

} // namespace weft
