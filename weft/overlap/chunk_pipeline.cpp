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

Chunk part_of(const ChunkedDim& cut, int64_t members, int64_t member) {
  const auto part = chunk(cut.size, members, member);
  return {member, part.begin, part.length};
}

std::vector<Chunk> chunks_of(const Chunk& part, int64_t count) {
  std::vector<Chunk> chunks;
  for (int64_t index = 0; index < count; ++index) {
    if (const auto run = chunk(part.length, count, index); run.length > 0) {
      chunks.push_back({part.member, part.begin + run.begin, run.length});
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

Chunk chunk_of(const ChunkedDim& cut, int64_t members, int64_t member, int64_t index) {
  const auto part = chunk(cut.size, members, member);
  const auto run = chunk(part.length, cut.chunks, index);
  return {member, part.begin + run.begin, run.length};
}

/// A member's turn at chunk `index` of the part that has come `step` hops to it.
struct Turn {
  int64_t step;
  int64_t index;
};

/// A chunk's next turn, at the next member, is so many rounds later: while it is under way there is other work.
constexpr int64_t kLag = 2;

/// The turns of every member in order. A round has at most one turn per step; chunk i sets out in round i.
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

/// How many messages must be awaited ahead. A chunk must be awaited when the member before has its turn at it, or the ring
/// could stand still: with everybody at the same turn, that is `lag` rounds before the own turn. One more, so that the
/// message that follows finds its receiver too.
int64_t messages_ahead(int64_t members, int64_t chunks) {
  const auto per_round = std::min(members - 1, (chunks + kLag - 1) / kLag);
  return kLag * per_round + 2;
}

/// So many messages may be awaited, and as many be on their way to the next member, while one chunk is worked on. Between
/// ranks that are threads, one that has come is held until the member before has seen that it has.
size_t buffers_for(int64_t ahead) {
  return static_cast<size_t>(3 * ahead + 1);
}

/// Lets threads that move bytes have the core for a moment: where there are no more cores than threads that compute, the
/// link would stand still until the scheduler's next tick.
void give_way(const Group& group) {
  if (group.blocks_host()) {
    std::this_thread::yield();
  }
}

/// Sleeps until the others have heard, most likely, what this member waits for, and it what they do. From then on what is
/// sent goes to the link at once; else it would be the backend's thread that sends, when this one no longer computes. Of
/// groups on which waiting blocks the host.
void let_receives_be_known(const Group& group) {
  constexpr std::chrono::microseconds kAMessage(20); // and the scheduler's slack
  if (dynamic_cast<const BackendGroup*>(&group) != nullptr) {
    std::this_thread::sleep_for(kAMessage);
  }
}

/// What one member sends to the next and receives from the one before, turn by turn.
///
/// Messages are awaited ahead of their turn. Where waiting does not block the host, messages that are posted one by one may
/// block each other on the device, so there what is sent in a turn and what comes meanwhile is one exchange.
class Ring {
 public:
  /// Where the chunk of a turn is to be received; of no elements for an empty one.
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
  /// What has come for the next turn that has something to receive.
  at::Tensor receive() {
    auto message = std::move(incoming_.front());
    incoming_.pop_front();
    if (group_.blocks_host()) {
      receive_ahead();
    }
    message.pending.wait();
    return std::move(message.tensor);
  }
  /// Passes the chunk of a turn on, in every turn but those of the last step; it has no elements where it is empty.
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
  /// Returns when the next member has everything.
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

/// Whether what is cut out along `dim` is contiguous.
bool cuts_in_one_piece(const at::Tensor& tensor, int64_t dim) {
  const auto before = tensor.sizes().slice(0, dim);
  return tensor.is_contiguous() && std::all_of(before.begin(), before.end(), [](int64_t size) { return size == 1; });
}

/// So many may all be under way at once.
constexpr int64_t kFewChunks = 16;

std::vector<Chunk> blocks_of(const Chunk& part, int64_t chunks) {
  return chunks_of(part, std::min(chunks, kOwnBlocks));
}

/// Member r has its own shard first, then those of r - 1, r - 2, ... .
void gather_on_ring(
    Group& group,
    const at::Tensor& shard,
    const ChunkedDim& cut,
    const at::Tensor& gathered,
    const ConsumeChunk& consume) {
  const auto members = group.size();
  const auto own = part_of(cut, members, group.rank());
  const bool in_place = gathered.defined() && cuts_in_one_piece(gathered, cut.dim);
  const auto chunk_at = [&](const Turn& turn) {
    return chunk_of(cut, members, (group.rank() - turn.step + members) % members, turn.index);
  };
  const Chunk nothing{group.rank(), own.begin, 0};
  const auto place_in_whole = [&](const Chunk& at) { return gathered.narrow(cut.dim, at.begin, at.length); };
  const auto values_of_own = [&](const Chunk& at) { return shard.narrow(cut.dim, at.begin - own.begin, at.length); };
  const auto use = [&](const Chunk& at, const at::Tensor& values, bool is_in_place) {
    consume(at, values);
    if (gathered.defined() && !is_in_place) {
      place_in_whole(at).copy_(values);
    }
  };

  auto ahead = messages_ahead(members, cut.chunks);
  // Two members pass nothing on: where everything may be awaited at once, the own shard is consumed in few calls.
  const bool own_at_once = members == 2 && (in_place || cut.chunks <= kFewChunks);
  ahead = own_at_once ? cut.chunks : ahead;
  Scratch buffers(buffers_for(ahead));
  Ring ring(group, ring_turns(members, cut.chunks, kLag), ahead, [&](const Turn& turn) {
    const auto at = chunk_at(turn);
    return in_place ? place_in_whole(at) : buffers.take(with_size(shard.sizes(), cut.dim, at.length), shard.options());
  });
  if (own_at_once) {
    for (int64_t index = 0; index < cut.chunks; ++index) {
      ring.send({0, index}, values_of_own(chunk_at({0, index})));
    }
    for (const auto& at : blocks_of(own, cut.chunks)) {
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

/// Two members: each sends the other its addends, works on its own part meanwhile, and adds what has come.
void scatter_between_two(Group& group, const at::Tensor& output, const ChunkedDim& cut, const ProduceChunk& produce) {
  const auto other = 1 - group.rank();
  const auto own = part_of(cut, 2, group.rank());
  const auto values_of_own = [&](const Chunk& at) { return output.narrow(cut.dim, at.begin - own.begin, at.length); };
  Scratch buffers(static_cast<size_t>(2 * cut.chunks));
  std::vector<std::pair<Chunk, at::Tensor>> arriving;
  std::vector<Pending> incoming;
  std::vector<Pending> outgoing;
  for (const auto& at : chunks_of(own, cut.chunks)) {
    auto buffer = buffers.take(with_size(output.sizes(), cut.dim, at.length), output.options());
    incoming.push_back(group.recv(buffer, other));
    arriving.emplace_back(at, std::move(buffer));
  }
  let_receives_be_known(group);
  for (const auto& at : chunks_of(part_of(cut, 2, other), cut.chunks)) {
    const auto target = buffers.take(with_size(output.sizes(), cut.dim, at.length), output.options());
    produce(at, target, /*adds=*/false);
    outgoing.push_back(group.send(target, other));
    give_way(group);
  }
  for (const auto& at : blocks_of(own, cut.chunks)) {
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

/// Member r adds to the parts of r - 1, which starts with it, r - 2, ..., and last to its own.
void scatter_on_ring(Group& group, const at::Tensor& output, const ChunkedDim& cut, const ProduceChunk& produce) {
  const auto members = group.size();
  const auto own = part_of(cut, members, group.rank());
  const auto chunk_at = [&](const Turn& turn) {
    return chunk_of(cut, members, (group.rank() - 1 - turn.step + 2 * members) % members, turn.index);
  };
  const auto ahead = messages_ahead(members, cut.chunks);
  Scratch buffers(buffers_for(ahead));
  const auto place = [&](const Turn& turn) {
    const auto at = chunk_at(turn);
    return turn.step + 1 == members ? output.narrow(cut.dim, at.begin - own.begin, at.length)
                                    : buffers.take(with_size(output.sizes(), cut.dim, at.length), output.options());
  };
  Ring ring(group, ring_turns(members, cut.chunks, kLag), ahead, place);
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

/// Members whose devices reach each other's memory read it there, instead of sending messages.
SymmetricMemory* shared_memory(BackendGroup* group, const at::Tensor& tensor) {
  return group != nullptr && tensor.is_cuda() ? SymmetricMemory::of(*group, tensor.device()) : nullptr;
}

} // namespace

void gather_in_chunks(
    Group& group,
    const at::Tensor& shard,
    const ChunkedDim& cut,
    const at::Tensor& gathered,
    const ConsumeChunk& consume) {
  at::AutoDispatchBelowADInplaceOrView guard;
  if (group.size() > 1) {
    auto* on_backend = dynamic_cast<BackendGroup*>(&group);
    if (auto* memory = shared_memory(on_backend, shard)) {
      const auto index_bytes = shard.numel() / std::max<int64_t>(shard.size(cut.dim), 1) * shard.element_size();
      on_backend->log(Collective::AllGather, shard, (cut.size - shard.size(cut.dim)) * index_bytes);
      memory->gather(shard, cut, gathered, consume);
    } else {
      gather_on_ring(group, shard, cut, gathered, consume);
    }
    return;
  }
  if (gathered.defined()) {
    gathered.copy_(shard);
  }
  if (cut.size > 0) {
    consume({0, 0, cut.size}, shard);
  }
}

void scatter_in_chunks(
    Group& group,
    const at::Tensor& output,
    const ChunkedDim& cut,
    ReduceOp op,
    const ProduceChunk& produce) {
  at::AutoDispatchBelowADInplaceOrView guard;
  auto* on_backend = dynamic_cast<BackendGroup*>(&group);
  if (auto* memory = group.size() > 1 ? shared_memory(on_backend, output) : nullptr) {
    on_backend->log(Collective::ReduceScatter, output, static_cast<int64_t>(output.nbytes()) * (group.size() - 1));
    memory->scatter(output, cut, produce);
  } else if (group.size() == 2 && group.blocks_host() && cut.chunks <= kFewChunks) {
    scatter_between_two(group, output, cut, produce);
  } else if (group.size() > 1) {
    scatter_on_ring(group, output, cut, produce);
  } else if (cut.size > 0) {
    produce({0, 0, cut.size}, output, /*adds=*/false);
  }
  if (op == ReduceOp::Avg && group.size() > 1) {
    output.div_(group.size());
  }
}

} // namespace weft
