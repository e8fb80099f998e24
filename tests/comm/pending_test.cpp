#include "weft/comm/pending.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <future>
#include <thread>

namespace weft {

namespace pending_test {

using testing::error_text;
using testing::expect_contains;

/// Keeps the texts of warnings.
class WarningCatcher : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    texts += warning.msg() + "\n";
  }
  std::string texts;
};

/// Operations that write their names into a list when they are finished.
struct Recorder {
  Pending operation(const std::string& name) {
    return Pending([this, name] { finished.push_back(name); });
  }
  Pending failing(const std::string& name) {
    return Pending([this, name] {
      finished.push_back(name);
      TORCH_CHECK_VALUE(false, name, " has failed");
    });
  }
  std::vector<std::string> finished;
};

using Names = std::vector<std::string>;

TEST(Pending, NothingToWaitForIsDone) {
  Pending nothing;
  EXPECT_TRUE(nothing.done());
  EXPECT_NO_THROW(nothing.wait());
}

TEST(Pending, WaitingFinishesOnce) {
  Recorder recorder;
  auto pending = recorder.operation("a");
  EXPECT_FALSE(pending.done());
  EXPECT_EQ(recorder.finished, Names());
  pending.wait();
  pending.wait();
  EXPECT_TRUE(pending.done());
  EXPECT_EQ(recorder.finished, Names({"a"}));
}

TEST(Pending, AnErrorComesWithEveryWait) {
  Recorder recorder;
  auto pending = recorder.failing("a");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_text<c10::ValueError>([&] { pending.wait(); }), "a has failed");
  }
  EXPECT_TRUE(pending.done());
  EXPECT_EQ(recorder.finished, Names({"a"}));
}

TEST(Pending, LettingGoWaits) {
  Recorder recorder;
  { const auto pending = recorder.operation("destroyed"); }
  auto pending = recorder.operation("assigned over");
  pending = recorder.operation("still there");
  EXPECT_EQ(recorder.finished, Names({"destroyed", "assigned over"}));
  pending.wait();
}

TEST(Pending, MovingHandsTheWaitOver) {
  Recorder recorder;
  auto from = recorder.operation("a");
  {
    const Pending to = std::move(from);
    EXPECT_EQ(recorder.finished, Names());
  }
  EXPECT_EQ(recorder.finished, Names({"a"}));
  EXPECT_NO_THROW(from.wait());
  EXPECT_EQ(recorder.finished, Names({"a"}));
}

TEST(Pending, AnErrorOfAnOperationReleasedWithoutAWaitIsAWarning) {
  WarningCatcher warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  Recorder recorder;
  { const auto pending = recorder.failing("a"); }
  expect_contains(warnings.texts, "[weft] an operation that was released without a wait failed: a has failed");
}

TEST(Pending, UnwindingTheStackDoesNotWaitAndKeepsTheBuffers) {
  Recorder recorder;
  const auto buffer = at::zeros({4});
  const auto text = error_text<c10::ValueError>([&] {
    const Pending pending([&recorder, buffer] { recorder.finished.push_back("must not be"); });
    TORCH_CHECK_VALUE(false, "something else went wrong");
  });
  EXPECT_EQ(text, "something else went wrong");
  EXPECT_EQ(recorder.finished, Names());
  EXPECT_GT(buffer.use_count(), 1);
}

TEST(Pending, UnwindingTheStackReleasesTheBuffersWhenTheTransferIsOver) {
  const auto progress = std::make_shared<Progress>();
  const auto buffer = at::zeros({4});
  std::promise<void> over;
  std::shared_future<void> transfer = over.get_future().share();
  const auto text = error_text<c10::ValueError>([&] {
    const auto pending = progress->track(Pending([transfer, buffer] { transfer.wait(); }), 1);
    TORCH_CHECK_VALUE(false, "something else went wrong");
  });
  EXPECT_EQ(text, "something else went wrong");
  EXPECT_GT(buffer.use_count(), 1);
  over.set_value();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (buffer.use_count() > 1 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(buffer.use_count(), 1);
}

TEST(Pending, UnwindingTheStackDoesNotFinishWhatWouldCommunicate) {
  Recorder recorder;
  const auto progress = std::make_shared<Progress>();
  error_text<c10::ValueError>([&] {
    const auto pending = progress->track(recorder.operation("must not be"), 2);
    TORCH_CHECK_VALUE(false, "something else went wrong");
  });
  EXPECT_EQ(recorder.finished, Names());
}

TEST(Progress, AWaitFirstCompletesEarlierOperationsOfSeveralStages) {
  Recorder recorder;
  const auto progress = std::make_shared<Progress>();
  auto first = progress->track(recorder.operation("first, staged"), 2);
  auto second = progress->track(recorder.operation("second, of one stage"), 1);
  auto third = progress->track(recorder.operation("third, staged"), 2);
  auto fourth = progress->track(recorder.operation("fourth, of one stage"), 1);
  auto fifth = progress->track(recorder.operation("fifth, staged"), 2);
  fourth.wait();
  EXPECT_EQ(recorder.finished, Names({"first, staged", "third, staged", "fourth, of one stage"}));
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(second.done());
  EXPECT_TRUE(third.done());
  EXPECT_FALSE(fifth.done());
  first.wait();
  second.wait();
  fifth.wait();
  EXPECT_EQ(
      recorder.finished,
      Names({"first, staged", "third, staged", "fourth, of one stage", "second, of one stage", "fifth, staged"}));
}

TEST(Progress, WhatCanGoOnByItselfIsStartedAndNotCompleted) {
  Recorder recorder;
  const auto progress = std::make_shared<Progress>();
  const auto note = [&](const char* text) { return [&recorder, text] { recorder.finished.push_back(text); }; };
  auto two = progress->track(Pending(note("second stage started"), note("second stage done")), 2);
  auto later = progress->track(recorder.operation("later"), 1);
  later.wait();
  EXPECT_EQ(recorder.finished, Names({"second stage started", "later"}));
  EXPECT_FALSE(two.done());
  two.wait();
  EXPECT_EQ(recorder.finished, Names({"second stage started", "later", "second stage done"}));
}

TEST(Progress, AnErrorOfTheFirstStageIsThatOfTheOperation) {
  Recorder recorder;
  const auto progress = std::make_shared<Progress>();
  const auto fail = [] { TORCH_CHECK_VALUE(false, "the first stage has failed"); };
  auto two = progress->track(Pending(fail, [&] { recorder.finished.push_back("must not be"); }), 2);
  EXPECT_NO_THROW(progress->track(recorder.operation("later"), 1).wait());
  EXPECT_TRUE(two.done());
  EXPECT_EQ(error_text<c10::ValueError>([&] { two.wait(); }), "the first stage has failed");
  EXPECT_EQ(recorder.finished, Names({"later"}));
}

TEST(Progress, AnErrorStaysWithItsOwnOperation) {
  Recorder recorder;
  const auto progress = std::make_shared<Progress>();
  auto failing = progress->track(recorder.failing("the staged one"), 2);
  auto healthy = progress->track(recorder.operation("the later one"), 1);
  EXPECT_NO_THROW(healthy.wait());
  EXPECT_TRUE(failing.done());
  EXPECT_EQ(error_text<c10::ValueError>([&] { failing.wait(); }), "the staged one has failed");
}

TEST(Progress, TracksAnOperationOnceAndNothingNever) {
  Recorder recorder;
  const auto inner = std::make_shared<Progress>();
  const auto outer = std::make_shared<Progress>();
  auto pending = outer->track(inner->track(recorder.operation("a"), 2), 2);
  auto later = outer->track(recorder.operation("b"), 1);
  EXPECT_TRUE(outer->track(Pending(), 2).done());
  later.wait();
  EXPECT_EQ(recorder.finished, Names({"b"})) << "the first tracker owns the operation";
  pending.wait();
}

TEST(Progress, IsNotKeptAliveByWhatItHasCompleted) {
  Recorder recorder;
  auto progress = std::make_shared<Progress>();
  const std::weak_ptr<Progress> watched = progress;
  progress->track(recorder.operation("a"), 2).wait();
  progress.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(Progress, AWaitLeavesAloneWhatAnotherThreadHasStartedOnOtherGroups) {
  // Otherwise two threads that use two meshes could each wait for ranks whose threads wait for the other mesh.
  Recorder recorder;
  const auto progress = std::make_shared<Progress>();
  const auto own_group = std::make_shared<GroupUse>("group dp");
  const auto other_group = std::make_shared<GroupUse>("group tp");
  Pending other;
  Pending same_group;
  std::thread([&] {
    other = progress->track(recorder.operation("another thread's"), 2, other_group);
    same_group = progress->track(recorder.operation("another thread's, of the same group"), 2, own_group);
  }).join();
  auto own = progress->track(recorder.operation("own"), 2, own_group);
  own.wait();
  EXPECT_EQ(recorder.finished, Names({"another thread's, of the same group", "own"}));
  other.wait();
  EXPECT_EQ(recorder.finished, Names({"another thread's, of the same group", "own", "another thread's"}));
}

TEST(Progress, TwoThreadsMayWaitForOneOperation) {
  std::atomic<int> finished = 0;
  const auto progress = std::make_shared<Progress>();
  for (int i = 0; i < 100; ++i) {
    auto pending = progress->track(Pending([&] { std::this_thread::yield(); }, [&] { ++finished; }), 2);
    std::thread other([&] { pending.wait(); });
    pending.wait();
    other.join();
  }
  EXPECT_EQ(finished, 100);
}

TEST(GroupUse, ACallDuringAnothersThreadsCallIsAnErrorForBoth) {
  const auto progress = std::make_shared<Progress>();
  const auto use = std::make_shared<GroupUse>("group tp (ranks 0,1)");
  const auto text =
      "one thread at a time may use group tp (ranks 0,1), but two threads have made calls at the same time. Make a "
      "mesh "
      "with other dim names for each thread.";
  const auto another_thread_calls = [&] {
    std::thread([&] {
      EXPECT_EQ(
          error_text<c10::DistBackendError>([&] { use->check_single_thread("all_reduce"); }),
          c10::str("[all_reduce] ", text));
    }).join();
  };
  auto pending = progress->track(Pending(another_thread_calls), 1, use);
  EXPECT_EQ(error_text<c10::DistBackendError>([&] { pending.wait(); }), c10::str("[comm] ", text));
  EXPECT_EQ(error_text<c10::DistBackendError>([&] { use->check_single_thread("send"); }), c10::str("[send] ", text));
}

TEST(GroupUse, ThreadsMayAlternateAndReadValuesThatOthersHaveStarted) {
  const auto progress = std::make_shared<Progress>();
  const auto use = std::make_shared<GroupUse>("group tp (ranks 0,1)");
  auto first = progress->track(Pending([] {}), 1, use);
  std::thread([&] {
    EXPECT_NO_THROW(use->check_single_thread("all_reduce")) << "the other thread has started a call, but is not in it";
    progress->track(Pending([] {}), 1, use).wait();
  }).join();
  first.wait();
  auto read = progress->track(Pending([&] { EXPECT_NO_THROW(use->check_single_thread("all_reduce")); }), 1, use);
  std::thread([&] { read.wait(); }).join();
  EXPECT_NO_THROW(use->check_single_thread("all_reduce"));
}

TEST(AsyncTensor, AValueThatIsThereIsReady) {
  const AsyncTensor value(at::ones({2}));
  EXPECT_TRUE(value.ready());
  EXPECT_TRUE(at::equal(value.wait(), at::ones({2})));
}

TEST(AsyncTensor, AValueWithNothingToWaitForIsReady) {
  const auto tensor = at::ones({2});
  const AsyncTensor value(tensor, Pending());
  EXPECT_TRUE(value.ready());
  EXPECT_TRUE(value.wait().is_same(tensor));
}

TEST(AsyncTensor, CopiesShareOneTransfer) {
  const auto buffer = at::zeros({2});
  int finished = 0;
  const AsyncTensor value(buffer, Pending([&finished, buffer] {
                            buffer.fill_(7);
                            ++finished;
                          }));
  const AsyncTensor copy = value;
  EXPECT_FALSE(value.ready());
  EXPECT_FALSE(copy.ready());
  EXPECT_TRUE(at::equal(copy.wait(), at::full({2}, 7.0)));
  EXPECT_TRUE(value.ready());
  EXPECT_TRUE(at::equal(value.wait(), at::full({2}, 7.0)));
  EXPECT_EQ(finished, 1);
}

TEST(AsyncTensor, AnErrorComesFromEveryCopy) {
  Recorder recorder;
  const AsyncTensor value(at::zeros({2}), recorder.failing("the transfer"));
  const AsyncTensor copy = value;
  for (const auto& each : {value, copy, value}) {
    EXPECT_EQ(error_text<c10::ValueError>([&] { each.wait(); }), "the transfer has failed");
  }
}

TEST(AsyncTensor, TheValueMayBeMadeAtTheEnd) {
  const auto slot = std::make_shared<at::Tensor>();
  const AsyncTensor value(slot, Pending([slot] { *slot = at::ones({3}); }));
  EXPECT_TRUE(at::equal(value.wait(), at::ones({3})));
}

} // namespace pending_test

} // namespace weft
