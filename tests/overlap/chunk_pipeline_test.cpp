#include "weft/overlap/chunk_pipeline.h"

#include "tests/support/fault_roles.h"
#include "tests/support/launch_store.h"
#include "weft/comm/collectives.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/core/shard_math.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <set>
#include <thread>

namespace weft {

namespace chunk_pipeline_test {

using testing::caught_by;
using testing::expect_contains;
using testing::expect_ended_well;
using testing::run_process_ranks;
using testing::say;
using testing::say_error_of;

/// Runs on ranks as threads, each with its mesh and its group of all.
void on_ranks(int64_t size, const std::function<void(const DeviceMesh& mesh, Group& group)>& fn) {
  run_on_ranks(size, [&](int64_t) {
    const auto mesh = init_device_mesh("cpu", {size}, {"tp"});
    fn(mesh, *Communicator::of(mesh).group(mesh, {0}));
  });
}

/// A group like those on a device: waiting does not block the host, and messages are sent in exchanges.
class GroupOnStream : public Group {
 public:
  GroupOnStream(const DeviceMesh& mesh, std::shared_ptr<Group> inner)
      : Group(Communicator::of(mesh), describe_group(mesh, 0)), inner_(std::move(inner)) {}
  bool blocks_host() const override {
    return false;
  }

 protected:
  Pending do_exchange(const Call& call, Tensors sends, Tensors recvs) override {
    EXPECT_EQ(call.collective, Collective::AllToAll);
    return inner_->all_to_all(sends, recvs);
  }
  uint64_t next_sequence() override {
    return 0;
  }
  uint64_t next_message(Collective /*direction*/, int64_t /*peer*/) override {
    return 0;
  }

 private:
  std::shared_ptr<Group> inner_;
};

at::Tensor numbers(c10::IntArrayRef sizes) {
  return at::arange(c10::multiply_integers(sizes), at::kFloat).view(sizes);
}

at::Tensor local(const at::Tensor& global, int64_t dim, const Group& group) {
  const auto run = chunk(global.size(dim), group.size(), group.rank());
  return global.narrow(dim, run.begin, run.length);
}

std::vector<int64_t> sizes_with(int64_t dim, int64_t size) {
  std::vector<int64_t> sizes = {2, 3, 2};
  sizes[dim] = size;
  return sizes;
}

/// Whether the memory of a tensor that was passed to a failed call is released soon after.
bool is_released(const c10::weak_intrusive_ptr<c10::StorageImpl>& memory) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!memory.expired() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return memory.expired();
}

/// Gathers a tensor of this size along the dim in chunks and compares.
void check_gather(Group& group, const ChunkedDim& chunked, bool keeps) {
  const auto global = numbers(sizes_with(chunked.dim, chunked.size));
  const auto gathered = keeps ? at::full_like(global, -1) : at::Tensor();
  const auto copied = at::full_like(global, -1);
  std::vector<int64_t> times(chunked.size, 0);
  bool is_first = true;
  gather_in_chunks(
      group, local(global, chunked.dim, group), chunked, gathered, [&](const Chunk& at, const at::Tensor& values) {
        const bool holds_some = chunk(chunked.size, group.size(), group.rank()).length > 0;
        EXPECT_TRUE(!is_first || !holds_some || at.member == group.rank());
        is_first = false;
        for (int64_t i = at.begin; i < at.begin + at.length; ++i) {
          ++times[i];
        }
        copied.narrow(chunked.dim, at.begin, at.length).copy_(values);
      });
  EXPECT_EQ(times, std::vector<int64_t>(chunked.size, 1));
  EXPECT_TRUE(at::equal(copied, global));
  EXPECT_TRUE(!keeps || at::equal(gathered, global));
}

at::Tensor scattered(Group& group, const at::Tensor& term, const ChunkedDim& chunked, ReduceOp op) {
  const auto output = at::full_like(local(term, chunked.dim, group), -1, at::MemoryFormat::Contiguous);
  scatter_in_chunks(group, output, chunked, op, [&](const Chunk& at, const at::Tensor& target, bool adds) {
    const auto values = term.narrow(chunked.dim, at.begin, at.length);
    adds ? target.add_(values) : target.copy_(values);
  });
  return output;
}

void check_scatter(Group& group, const ChunkedDim& chunked, ReduceOp op) {
  const auto base = numbers(sizes_with(chunked.dim, chunked.size));
  const auto n = group.size();
  const auto output = scattered(group, base * (group.rank() + 1), chunked, op);
  const auto factor = n * (n + 1) / 2;
  const auto expected = op == ReduceOp::Sum ? base * factor : base * factor / n;
  EXPECT_TRUE(at::allclose(output, local(expected, chunked.dim, group)));
}

TEST(ChunkPipeline, AGatherGivesEveryIndexOnceAndKeepsTheGatheredTensorIfAsked) {
  for (int64_t members = 1; members <= 4; ++members) {
    on_ranks(members, [&](const DeviceMesh&, Group& group) {
      for (int64_t dim = 0; dim < 3; ++dim) {
        for (const int64_t size : {24, 7, 5, 1, 0}) {
          for (int64_t chunks = 1; chunks <= 7; ++chunks) {
            check_gather(group, {dim, size, chunks}, /*keeps=*/false);
            check_gather(group, {dim, size, chunks}, /*keeps=*/true);
          }
        }
      }
    });
  }
}

TEST(ChunkPipeline, AScatterReducesTheTermsOfEveryMember) {
  for (int64_t members = 1; members <= 4; ++members) {
    on_ranks(members, [&](const DeviceMesh&, Group& group) {
      for (int64_t dim = 0; dim < 3; ++dim) {
        for (const int64_t size : {24, 7, 5, 1, 0}) {
          for (int64_t chunks = 1; chunks <= 7; ++chunks) {
            check_scatter(group, {dim, size, chunks}, ReduceOp::Sum);
            check_scatter(group, {dim, size, chunks}, ReduceOp::Avg);
          }
        }
      }
    });
  }
}

TEST(ChunkPipeline, IfWaitingDoesNotBlockTheHostEveryTurnIsOneExchange) {
  for (int64_t members = 2; members <= 4; ++members) {
    on_ranks(members, [&](const DeviceMesh& mesh, Group& inner) {
      const auto group = std::make_shared<GroupOnStream>(mesh, inner.shared_from_this());
      for (const int64_t size : {24, 7, 1, 0}) {
        for (int64_t chunks = 1; chunks <= 7; ++chunks) {
          check_gather(*group, {1, size, chunks}, /*keeps=*/false);
          check_gather(*group, {0, size, chunks}, /*keeps=*/true);
          check_scatter(*group, {1, size, chunks}, ReduceOp::Sum);
        }
      }
    });
  }
}

TEST(ChunkPipeline, ManyChunksOnManyRanks) {
  on_ranks(9, [&](const DeviceMesh&, Group& group) {
    for (const int64_t chunks : {1, 2, 16}) {
      check_gather(group, {0, 9 * 16, chunks}, /*keeps=*/false);
      check_scatter(group, {0, 9 * 16, chunks}, ReduceOp::Sum);
    }
  });
}

TEST(ChunkPipeline, TheSumsOfAScatterAreTheSameBitsInEveryRun) {
  on_ranks(4, [&](const DeviceMesh&, Group& group) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(group.rank() + 1);
    const auto term = at::randn({64, 9}, generator, at::kFloat);
    const ChunkedDim chunked{0, 64, 5};
    const auto first = scattered(group, term, chunked, ReduceOp::Sum);
    for (int run = 0; run < 5; ++run) {
      EXPECT_TRUE(at::equal(scattered(group, term, chunked, ReduceOp::Sum), first));
    }
  });
}

TEST(ChunkPipeline, TwoMembersConsumeTheirOwnShardInFewCalls) {
  on_ranks(2, [&](const DeviceMesh&, Group& group) {
    std::vector<int64_t> lengths;
    gather_in_chunks(group, numbers({8, 2}), {0, 16, 8}, {}, [&](const Chunk& at, const at::Tensor&) {
      lengths.push_back(at.length);
    });
    EXPECT_EQ(lengths, (std::vector<int64_t>{2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1}));
  });
}

TEST(ChunkPipeline, TheSizeOfTheBuffersDoesNotDependOnTheNumberOfChunks) {
  for (const int64_t members : {2, 3, 4}) {
    on_ranks(members, [&](const DeviceMesh&, Group& group) {
      std::set<const void*> addresses;
      gather_in_chunks(
          group, numbers({256, 32}), {0, 256 * members, 64}, {}, [&](const Chunk& at, const at::Tensor& values) {
            if (at.member != group.rank()) {
              addresses.insert(values.const_data_ptr());
            }
          });
      EXPECT_LE(addresses.size(), 6U * static_cast<size_t>(members) + 1);
    });
  }
}

TEST(ChunkPipeline, TheBytesAreThoseOfTheCollective) {
  for (const int64_t members : {2, 3, 4}) {
    on_ranks(members, [&](const DeviceMesh& mesh, Group& group) {
      const auto shard = numbers({10, 4});
      CommLog log(mesh);
      all_gather(shard, mesh, {0}, 0).wait();
      const auto gathered_bytes = log.bytes();
      log.clear();
      gather_in_chunks(group, shard, {0, 10 * members, 3}, {}, [](const Chunk&, const at::Tensor&) {});
      EXPECT_EQ(log.bytes(), gathered_bytes);
      log.clear();
      const auto term = numbers({10 * members, 4});
      reduce_scatter(term, mesh, {0}, 0, ReduceOp::Sum).wait();
      const auto scattered_bytes = log.bytes();
      log.clear();
      scattered(group, term, {0, 10 * members, 3}, ReduceOp::Sum);
      EXPECT_EQ(log.bytes(), scattered_bytes);
    });
  }
}

TEST(ChunkPipeline, ARankThatFailsInTheMiddleIsAnErrorOnTheOthersAndTheBuffersAreReleased) {
  for (const bool scatters : {false, true}) {
    std::atomic<int> released = 0;
    std::mutex mutex;
    std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> memory;
    const auto text = testing::error_text([&] {
      on_ranks(3, [&](const DeviceMesh&, Group& group) {
        int calls = 0;
        const auto tensor = numbers({8, 2});
        {
          const std::lock_guard lock(mutex);
          memory.push_back(tensor.storage().getWeakStorageImpl());
        }
        const auto fail_at_third = [&] { TORCH_CHECK_VALUE(group.rank() != 1 || ++calls < 3, "no more of this"); };
        try {
          if (scatters) {
            scatter_in_chunks(group, tensor, {0, 24, 4}, ReduceOp::Sum, [&](const Chunk&, const at::Tensor&, bool) {
              fail_at_third();
            });
          } else {
            gather_in_chunks(group, tensor, {0, 24, 4}, {}, [&](const Chunk&, const at::Tensor&) { fail_at_third(); });
          }
        } catch (const c10::DistBackendError& error) {
          const std::string what = error.what_without_backtrace();
          EXPECT_NE(what.find("does not participate: it failed with: "), std::string::npos) << what;
          ++released;
          throw;
        }
      });
    });
    expect_contains(text, "no more of this");
    EXPECT_EQ(released, 2);
    EXPECT_TRUE(std::all_of(memory.begin(), memory.end(), is_released));
  }
}

/// Gathers on three processes, of which rank 1 calls `at_third` at its third chunk. Prints the error, how long it took,
/// and whether the shard's memory is released.
static void gather_with_a_fault(const std::function<void()>& at_third) {
  const auto world = testing::make_prompt_world();
  const DeviceMesh mesh(world, c10::kCPU, {3}, {"tp"});
  auto& group = *Communicator::of(mesh).group(mesh, {0});
  barrier(mesh, {0});
  auto shard = at::ones({1024, 512});
  const auto memory = shard.storage().getWeakStorageImpl();
  int calls = 0;
  const auto start = std::chrono::steady_clock::now();
  say_error_of([&] {
    gather_in_chunks(group, shard, {0, 3 * 1024, 8}, {}, [&](const Chunk&, const at::Tensor&) {
      if (group.rank() == 1 && ++calls == 3) {
        at_third();
      }
    });
  });
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say("in time ", seconds < 1.5 * std::chrono::duration<double>(world->timeout()).count());
  shard.reset();
  say("released ", is_released(memory));
}

static void expect_fault_is_seen(const std::vector<testing::Outcome>& ranks) {
  for (const size_t rank : {0, 2}) {
    expect_contains(caught_by(ranks, rank), "A rank has died, is stuck, or made another call");
    EXPECT_TRUE(ranks[rank].has_line("in time 1")) << ranks[rank].output;
    EXPECT_TRUE(ranks[rank].has_line("released 1")) << ranks[rank].output;
    expect_ended_well(ranks, rank);
  }
}

RANK_ROLE(exits_inside_a_gather) {
  gather_with_a_fault([] { std::_Exit(0); });
}

TEST(ChunkPipeline, AProcessThatExitsInTheMiddleIsAnErrorOnTheOthersAndTheBuffersAreReleased) {
  expect_fault_is_seen(run_process_ranks("exits_inside_a_gather", 3, {.timeout = std::chrono::seconds(4)}));
}

RANK_ROLE(is_stuck_inside_a_gather) {
  gather_with_a_fault([] { std::this_thread::sleep_for(std::chrono::seconds(8)); });
}

TEST(ChunkPipeline, AProcessThatIsStuckIsAnErrorOnTheOthersWithinTheTimeout) {
  expect_fault_is_seen(run_process_ranks("is_stuck_inside_a_gather", 3, {.timeout = std::chrono::seconds(3)}));
}

RANK_ROLE(checks_pipelines) {
  const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
  auto& group = *Communicator::of(mesh).group(mesh, {0});
  for (int64_t dim = 0; dim < 3; ++dim) {
    for (const int64_t size : {24, 7, 1}) {
      for (int64_t chunks = 1; chunks <= 7; ++chunks) {
        check_gather(group, {dim, size, chunks}, /*keeps=*/chunks % 2 == 0);
        check_scatter(group, {dim, size, chunks}, ReduceOp::Sum);
      }
    }
  }
  say(::testing::Test::HasFailure() ? "wrong" : "right");
}

TEST(ChunkPipeline, ProcessesGatherAndScatterAlike) {
  const auto ranks = run_process_ranks("checks_pipelines", 2);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(ranks[rank].has_line("right")) << ranks[rank].output;
    expect_ended_well(ranks, rank);
  }
}

TEST(ChunkPipeline, SizesWithAnotherOne) {
  EXPECT_EQ(c10::IntArrayRef(with_size({2, 3, 4}, 1, 7)), c10::IntArrayRef({2, 7, 4}));
}

} // namespace chunk_pipeline_test

} // namespace weft
