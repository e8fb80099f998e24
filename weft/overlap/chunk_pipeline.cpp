#include "weft/overlap/chunk_pipeline.h"

#include "weft/comm/scratch.h"
#include "weft/comm/world/backend_channel.h"
#include "weft/core/shard_math.h"
#include "weft/overlap/symmetric_memory.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <chrono>
#include <deque>
#include <thread>

namespace weft {

Chunk member_shard(const ChunkedDim& chunked, int64_t members, int64_t member) {
  const auto run = chunk(chunked.size, members, member);
  return {member, run.begin, run.length};
}

std::vector<Chunk> chunks_of(const Chunk& shard, int64_t count) {
  std::vector<Chunk> chunks;
  for (int64_t index = 0; index < count; ++index) {
    if (const auto run = chunk(shard.length, count, index); run.length > 0) {
      chunks.push_back({shard.member, shard.begin + run.begin, run.length});
    }
  }
  return chunks;
}

c10::DimVector with_size(c10::IntArrayRef sizes, int64_t dim, int64_t size) {
  c10::DimVector result(sizes);
  result[dim] = size;
  return result;
}

namespace {

Chunk chunk_of(const ChunkedDim& chunked, int64_t members, int64_t member, int64_t index) {
  const auto shard = chunk(chunked.size, members, member);
  const auto run = chunk(shard.length, chunked.chunks, index);
  return {member, shard.begin + run.begin, run.length};
}

/// One entry of a member's schedule: it handles chunk `index` of the shard that has made `step` hops of the ring to it.
struct Turn {
  int64_t step;
  int64_t index;
};

/// The next member handles a chunk this many rounds later, so that it has other work while the chunk is sent.
constexpr int64_t kLag = 2;

/// The schedule, which is the same for every member. A round has at most one turn per step; chunk i is first sent in
/// round i.
std::vector<Turn> ring_turns(int64_t members, int64_t chunks, int64_t lag) {
  std::vector<Turn> turns;
  for (int64_t round = 0; round < chunks + lag * (members - 1); ++round) {
    for (int64_t step = 0; step < members; ++step) {
      const auto index = round - lag * step;
      if (index >= 0 && index < chunks) {
        turns.push_back({step, index});
      }
    }
  }
  return turns;
}

/// How many receives must be posted ahead. The receive of a chunk must be posted when the member before handles the
/// chunk, or the ring could stop: if all members are at the same turn, that is `kLag` rounds before the own turn. One
/// more, so that the next message finds its receive too.
int64_t messages_ahead(int64_t members, int64_t chunks) {
  const auto per_round = std::min(members - 1, (chunks + kLag - 1) / kLag);
  return kLag * per_round + 2;
}

/// The number of buffers: for `ahead` messages that are received, as many that are sent, and the chunk that is computed
/// with. As many again, because between ranks as threads a received buffer is held until the sender has seen its
/// arrival.
size_t buffers_for(int64_t ahead) {
  return static_cast<size_t>(3 * ahead + 1);
}

/// Yields the core to the threads that send bytes. If all cores compute, nothing would be sent until the scheduler's
/// next tick.
void give_way(const Group& group) {
  if (group.blocks_host()) {
    std::this_thread::yield();
  }
}

/// Sleeps until the members most likely know of each other's posted receives. From then on a send goes to the link at
/// once; without this, the backend's thread would send later, when this thread no longer computes. For groups on which
/// waiting blocks the host.
void let_receives_be_known(const Group& group) {
  constexpr std::chrono::microseconds kAMessage(20); // and the scheduler's slack
  if (dynamic_cast<const BackendGroup*>(&group) != nullptr) {
    std::this_thread::sleep_for(kAMessage);
  }
}

/// Sends to the next member and receives from the one before, turn by turn.
///
/// Receives are posted ahead of their turn. If waiting does not block the host, messages that are posted one by one may
/// block each other on the device, so that the send of a turn and the receive at the same time are one exchange.
class Ring {
 public:
  /// The tensor into which the chunk of a turn is received; without elements for an empty chunk.
  using Place = std::function<at::Tensor(const Turn& turn)>;

  Ring(Group& group, std::vector<Turn> turns, int64_t ahead, Place place)
      : group_(group),
        previous_((group.rank() + group.size() - 1) % group.size()),
        next_((group.rank() + 1) % group.size()),
        turns_(std::move(turns)),
        ahead_(ahead),
        place_(std::move(place)) {
    if (group_.blocks_host()) {
      receive_ahead();
      let_receives_be_known(group_);
    }
  }

  const std::vector<Turn>& turns() const {
    return turns_;
  }
  /// The received chunk of the next turn that receives one.
  at::Tensor receive() {
    auto message = std::move(incoming_.front());
    incoming_.pop_front();
    if (group_.blocks_host()) {
      receive_ahead();
    }
    message.pending.wait();
    return std::move(message.tensor);
  }
  /// Sends the chunk of a turn to the next member, in every turn but those of the last step. An empty chunk has no
  /// elements.
  void send(const Turn& turn, const at::Tensor& tensor) {
    if (!group_.blocks_host()) {
      exchange(turn, tensor);
    } else if (tensor.numel() > 0) {
      while (static_cast<int64_t>(outgoing_.size()) >= ahead_) {
        finish_oldest_send();
      }
      outgoing_.push_back(group_.send(tensor, next_));
    }
  }
  /// Returns when all sends are complete.
  void finish() {
    while (!outgoing_.empty()) {
      finish_oldest_send();
    }
  }

 private:
  struct Message {
    at::Tensor tensor;
    Pending pending;
  };

  void receive_ahead() {
    for (; next_turn_ < turns_.size() && static_cast<int64_t>(incoming_.size()) < ahead_; ++next_turn_) {
      if (turns_[next_turn_].step == 0) {
        continue;
      }
      if (auto tensor = place_(turns_[next_turn_]); tensor.numel() > 0) {
        auto pending = group_.recv(tensor, previous_);
        incoming_.push_back({std::move(tensor), std::move(pending)});
      }
    }
  }

  void exchange(const Turn& turn, const at::Tensor& tensor) {
    auto target = place_({turn.step + 1, turn.index});
    std::vector<at::Tensor> sends(group_.size());
    std::vector<at::Tensor> recvs(group_.size());
    sends[next_] = tensor;
    recvs[previous_] = target;
    auto pending = group_.all_to_all(sends, recvs);
    if (target.numel() > 0) {
      incoming_.push_back({std::move(target), std::move(pending)});
    } else {
      outgoing_.push_back(std::move(pending));
    }
  }

  void finish_oldest_send() {
    auto oldest = std::move(outgoing_.front());
    outgoing_.pop_front();
    oldest.wait();
  }

  Group& group_;
  int64_t previous_;
  int64_t next_;
  std::vector<Turn> turns_;
  int64_t ahead_;
  Place place_;
  size_t next_turn_ = 0;
  std::deque<Message> incoming_;
  std::deque<Pending> outgoing_;
};

/// Whether slices along `dim` are contiguous.
bool has_contiguous_slices(const at::Tensor& tensor, int64_t dim) {
  const auto before = tensor.sizes().slice(0, dim);
  return tensor.is_contiguous() && std::all_of(before.begin(), before.end(), [](int64_t size) { return size == 1; });
}

/// This many chunks may all be sent at once.
constexpr int64_t kFewChunks = 16;

std::vector<Chunk> blocks_of(const Chunk& shard, int64_t chunks) {
  return chunks_of(shard, std::min(chunks, kOwnBlocks));
}

/// Member r consumes its own shard first, then those of r - 1, r - 2, ... .
void gather_on_ring(
    Group& group,
    const at::Tensor& shard,
    const ChunkedDim& chunked,
    const at::Tensor& gathered,
    const ConsumeChunk& consume) {
  const auto members = group.size();
  const auto own = member_shard(chunked, members, group.rank());
  const bool in_place = gathered.defined() && has_contiguous_slices(gathered, chunked.dim);
  const auto chunk_at = [&](const Turn& turn) {
    return chunk_of(chunked, members, (group.rank() - turn.step + members) % members, turn.index);
  };
  const Chunk nothing{group.rank(), own.begin, 0};
  const auto place_in_gathered = [&](const Chunk& at) { return gathered.narrow(chunked.dim, at.begin, at.length); };
  const auto values_of_own = [&](const Chunk& at) {
    return shard.narrow(chunked.dim, at.begin - own.begin, at.length);
  };
  const auto use = [&](const Chunk& at, const at::Tensor& values, bool is_in_place) {
    consume(at, values);
    if (gathered.defined() && !is_in_place) {
      place_in_gathered(at).copy_(values);
    }
  };

  auto ahead = messages_ahead(members, chunked.chunks);
  // Two members pass nothing on: if all receives can be posted at once, the own shard is consumed in few calls.
  const bool own_at_once = members == 2 && (in_place || chunked.chunks <= kFewChunks);
  ahead = own_at_once ? chunked.chunks : ahead;
  Scratch buffers(buffers_for(ahead));
  Ring ring(group, ring_turns(members, chunked.chunks, kLag), ahead, [&](const Turn& turn) {
    const auto at = chunk_at(turn);
    return in_place ? place_in_gathered(at)
                    : buffers.take(with_size(shard.sizes(), chunked.dim, at.length), shard.options());
  });
  if (own_at_once) {
    for (int64_t index = 0; index < chunked.chunks; ++index) {
      ring.send({0, index}, values_of_own(chunk_at({0, index})));
    }
    for (const auto& at : blocks_of(own, chunked.chunks)) {
      use(at, values_of_own(at), /*is_in_place=*/false);
      give_way(group);
    }
  }
  for (const auto& turn : ring.turns()) {
    if (turn.step == 0 && own_at_once) {
      continue;
    }
    const auto at = chunk_at(turn);
    const auto values = turn.step > 0 && at.length > 0 ? ring.receive() : values_of_own(turn.step > 0 ? nothing : at);
    if (turn.step + 1 < members) {
      ring.send(turn, values);
    }
    if (at.length > 0) {
      use(at, values, in_place && turn.step > 0);
      give_way(group);
    }
  }
  ring.finish();
}

/// Two members: each sends the other its terms, computes the terms of its own shard meanwhile, and adds the received
/// ones.
void scatter_between_two(
    Group& group,
    const at::Tensor& output,
    const ChunkedDim& chunked,
    const ProduceChunk& produce) {
  const auto other = 1 - group.rank();
  const auto own = member_shard(chunked, 2, group.rank());
  const auto values_of_own = [&](const Chunk& at) {
    return output.narrow(chunked.dim, at.begin - own.begin, at.length);
  };
  Scratch buffers(static_cast<size_t>(2 * chunked.chunks));
  std::vector<std::pair<Chunk, at::Tensor>> arriving;
  std::vector<Pending> incoming;
  std::vector<Pending> outgoing;
  for (const auto& at : chunks_of(own, chunked.chunks)) {
    auto buffer = buffers.take(with_size(output.sizes(), chunked.dim, at.length), output.options());
    incoming.push_back(group.recv(buffer, other));
    arriving.emplace_back(at, std::move(buffer));
  }
  let_receives_be_known(group);
  for (const auto& at : chunks_of(member_shard(chunked, 2, other), chunked.chunks)) {
    const auto target = buffers.take(with_size(output.sizes(), chunked.dim, at.length), output.options());
    produce(at, target, /*adds=*/false);
    outgoing.push_back(group.send(target, other));
    give_way(group);
  }
  for (const auto& at : blocks_of(own, chunked.chunks)) {
    produce(at, values_of_own(at), /*adds=*/false);
    give_way(group);
  }
  for (size_t i = 0; i < arriving.size(); ++i) {
    incoming[i].wait();
    values_of_own(arriving[i].first).add_(arriving[i].second);
  }
  for (auto& pending : outgoing) {
    pending.wait();
  }
}

/// Member r adds its terms first to the shard of r - 1, which begins at r, then to that of r - 2, ..., and last to its
/// own.
void scatter_on_ring(Group& group, const at::Tensor& output, const ChunkedDim& chunked, const ProduceChunk& produce) {
  const auto members = group.size();
  const auto own = member_shard(chunked, members, group.rank());
  const auto chunk_at = [&](const Turn& turn) {
    return chunk_of(chunked, members, (group.rank() - 1 - turn.step + 2 * members) % members, turn.index);
  };
  const auto ahead = messages_ahead(members, chunked.chunks);
  Scratch buffers(buffers_for(ahead));
  const auto place = [&](const Turn& turn) {
    const auto at = chunk_at(turn);
    return turn.step + 1 == members ? output.narrow(chunked.dim, at.begin - own.begin, at.length)
                                    : buffers.take(with_size(output.sizes(), chunked.dim, at.length), output.options());
  };
  Ring ring(group, ring_turns(members, chunked.chunks, kLag), ahead, place);
  for (const auto& turn : ring.turns()) {
    const auto at = chunk_at(turn);
    const auto target = turn.step > 0 && at.length > 0 ? ring.receive() : place(turn);
    if (at.length > 0) {
      produce(at, target, /*adds=*/turn.step > 0);
    }
    if (turn.step + 1 < members) {
      ring.send(turn, target);
    }
    give_way(group);
  }
  ring.finish();
}

/// The memory that the members' devices share, from which chunks are read instead of being sent as messages; nullptr if
/// there is none.
SymmetricMemory* shared_memory(BackendGroup* group, const at::Tensor& tensor) {
  return group != nullptr && tensor.is_cuda() ? SymmetricMemory::of(*group, tensor.device()) : nullptr;
}

} // namespace

void gather_in_chunks(
    Group& group,
    const at::Tensor& shard,
    const ChunkedDim& chunked,
    const at::Tensor& gathered,
    const ConsumeChunk& consume) {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (group.size() > 1) {
    auto* on_backend = dynamic_cast<BackendGroup*>(&group);
    if (auto* memory = shared_memory(on_backend, shard)) {
      const auto index_bytes = shard.numel() / std::max<int64_t>(shard.size(chunked.dim), 1) * shard.element_size();
      on_backend->log(Collective::AllGather, shard, (chunked.size - shard.size(chunked.dim)) * index_bytes);
      memory->gather(shard, chunked, gathered, consume);
    } else {
      gather_on_ring(group, shard, chunked, gathered, consume);
    }
    return;
  }
  if (gathered.defined()) {
    gathered.copy_(shard);
  }
  if (chunked.size > 0) {
    consume({0, 0, chunked.size}, shard);
  }
}

void scatter_in_chunks(
    Group& group,
    const at::Tensor& output,
    const ChunkedDim& chunked,
    ReduceOp op,
    const ProduceChunk& produce) {
  at::AutoDispatchBelowADInplaceOrView guard;
  auto* on_backend = dynamic_cast<BackendGroup*>(&group);
  if (auto* memory = group.size() > 1 ? shared_memory(on_backend, output) : nullptr) {
    on_backend->log(Collective::ReduceScatter, output, static_cast<int64_t>(output.nbytes()) * (group.size() - 1));
    memory->scatter(output, chunked, produce);
  } else if (group.size() == 2 && group.blocks_host() && chunked.chunks <= kFewChunks) {
    scatter_between_two(group, output, chunked, produce);
  } else if (group.size() > 1) {
    scatter_on_ring(group, output, chunked, produce);
  } else if (chunked.size > 0) {
    produce({0, 0, chunked.size}, output, /*adds=*/false);
  }
  if (op == ReduceOp::Avg && group.size() > 1) {
    output.div_(group.size());
  }
}

} // namespace weft
