#include "weft/comm/thread_world.h"

#include "weft/comm/reduce_pieces.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <condition_variable>

namespace weft {

namespace {

/// A rank's kernels may run on a stream of their own, while the ranks of a process meet on the default one.
void synchronize_own_stream(Tensors tensors) {
  for (const auto& tensor : tensors) {
    if (tensor.defined() && !tensor.is_cpu() && !tensor.is_meta()) {
      const c10::impl::VirtualGuardImpl device(tensor.device().type());
      const auto stream = device.getStream(tensor.device());
      if (stream != device.getDefaultStream(tensor.device())) {
        stream.synchronize();
      }
      return;
    }
  }
}

/// The members of one call meet here: everybody lays down what it sends, then everybody reads, then everybody leaves.
struct Meeting {
  explicit Meeting(int64_t members) : laid_down(members), present(members, false) {}

  std::vector<std::vector<at::Tensor>> laid_down;
  std::vector<bool> present;
  int64_t arrived = 0;
  int64_t departed = 0;
  Call first_call{};
  int64_t first_member = -1;
  std::string error;
};

/// A collective is named by its number; a message also by sender and receiver.
using MeetingKey = std::tuple<uint64_t, int64_t, int64_t, int64_t>;

} // namespace

struct ThreadHub::Room {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<MeetingKey, std::shared_ptr<Meeting>> meetings;
};

ThreadHub::ThreadHub(int64_t size, std::chrono::milliseconds timeout)
    : size_(size), timeout_(timeout), left_(size), reasons_(size) {}

ThreadHub::~ThreadHub() = default;

std::shared_ptr<ThreadHub::Room> ThreadHub::room(const std::vector<int64_t>& ranks) {
  const std::lock_guard lock(mutex_);
  auto& room = rooms_[ranks];
  if (!room) {
    room = std::make_shared<Room>();
  }
  return room;
}

bool ThreadHub::has_left(int64_t rank) const {
  return left_[rank].load();
}

std::string ThreadHub::why_left(int64_t rank) const {
  const std::lock_guard lock(mutex_);
  return reasons_[rank];
}

void ThreadHub::leave(int64_t rank, std::string reason) {
  std::vector<std::shared_ptr<Room>> rooms;
  {
    const std::lock_guard lock(mutex_);
    reasons_[rank] = std::move(reason);
    left_[rank] = true;
    for (const auto& [ranks, room] : rooms_) {
      rooms.push_back(room);
    }
  }
  for (const auto& room : rooms) {
    const std::lock_guard lock(room->mutex);
    room->changed.notify_all();
  }
}

/// What the labels of one rank list share: the room, and how many calls this rank has made in it.
struct ThreadChannel {
  std::shared_ptr<ThreadHub> hub;
  std::shared_ptr<ThreadHub::Room> room;
  std::atomic<uint64_t> calls = 0;
  std::map<std::pair<Collective, int64_t>, uint64_t> messages;
};

class ThreadGroup : public Group {
 public:
  ThreadGroup(
      Communicator& communicator,
      std::string label,
      std::vector<int64_t> ranks,
      int64_t rank,
      std::shared_ptr<ThreadChannel> channel)
      : Group(communicator, std::move(label), std::move(ranks), rank), channel_(std::move(channel)) {}

 protected:
  uint64_t next_sequence() override {
    return channel_->calls++;
  }
  uint64_t next_message(Collective direction, int64_t peer) override {
    return channel_->messages[{direction, peer}]++;
  }

  Pending do_exchange(const Call& call, Tensors sends, Tensors recvs) override {
    auto targets = recvs.vec();
    return meet(call, sends, [this, targets = std::move(targets)](const Meeting& meeting) {
      for (int64_t i = 0; i < size(); ++i) {
        if (i == rank() || !targets[i].defined() || !meeting.present[i]) {
          continue;
        }
        const auto& sent = meeting.laid_down[i][rank()];
        check_piece(meeting.first_call, sent, targets[i], i);
        targets[i].copy_(sent.sizes() == targets[i].sizes() ? sent : sent.reshape(targets[i].sizes()));
      }
      synchronize_own_stream(targets);
    });
  }

  Pending do_reduce_scatter(const Call& call, Tensors inputs, const at::Tensor& output) override {
    return meet(call, inputs, [this, output, op = call.op](const Meeting& meeting) {
      std::vector<at::Tensor> pieces;
      for (int64_t i = 0; i < size(); ++i) {
        const auto& sent = meeting.laid_down[i][rank()];
        check_piece(meeting.first_call, sent, output, i);
        pieces.push_back(sent.reshape(output.sizes()));
      }
      reduce_pieces(output, pieces, op);
      synchronize_own_stream(output);
    });
  }

 private:
  using Clock = std::chrono::steady_clock;

  void check_piece(const Call& call, const at::Tensor& sent, const at::Tensor& target, int64_t from) const {
    TORCH_CHECK_VALUE(
        (sent.defined() ? sent.numel() : 0) == target.numel(), "[", call.to_string(), "] rank ", ranks()[rank()],
        " expects ", target.sizes(), " from rank ", ranks()[from], " in ", to_string(), ", but got ",
        sent.defined() ? c10::str(sent.sizes()) : "nothing", ". The ranks must agree on the shapes.");
  }

  Pending meet(const Call& call, Tensors sends, std::function<void(const Meeting&)> read) {
    synchronize_own_stream(sends);
    const bool is_message = call.collective == Collective::Send || call.collective == Collective::Recv;
    const auto from = call.collective == Collective::Send ? rank() : call.root;
    const auto to = call.collective == Collective::Send ? call.root : rank();
    const auto key =
        is_message ? MeetingKey{call.sequence, call.stage, from, to} : MeetingKey{call.sequence, call.stage, -1, -1};
    auto meeting = arrive(key, call, sends);
    std::vector<int64_t> members;
    for (int64_t i = 0; i < size(); ++i) {
      if (!is_message || i == from || i == to) {
        members.push_back(i);
      }
    }
    return Pending(
        [this, self = shared_from_this(), key, call, meeting, members = std::move(members), read = std::move(read)] {
          at::AutoDispatchBelowADInplaceOrView guard;
          const auto deadline = Clock::now() + channel_->hub->timeout_;
          wait_for_all(*meeting, meeting->arrived, members, call, deadline);
          read(*meeting);
          depart(key, *meeting, members, call, deadline);
        });
  }

  std::shared_ptr<Meeting> arrive(const MeetingKey& key, const Call& call, Tensors sends) {
    auto& room = *channel_->room;
    const std::lock_guard lock(room.mutex);
    auto& slot = room.meetings[key];
    if (!slot) {
      slot = std::make_shared<Meeting>(size());
      slot->first_call = call;
      slot->first_member = rank();
    } else if (std::get<2>(key) == -1 && !call.matches(slot->first_call) && slot->error.empty()) {
      slot->error = c10::str(
          "all ranks must make the same call, but rank ", ranks()[slot->first_member], " called ",
          slot->first_call.to_string(), " and rank ", ranks()[rank()], " called ", call.to_string());
    }
    slot->laid_down[rank()] = sends.vec();
    slot->present[rank()] = true;
    ++slot->arrived;
    room.changed.notify_all();
    return slot;
  }

  void depart(
      const MeetingKey& key,
      Meeting& meeting,
      const std::vector<int64_t>& members,
      const Call& call,
      Clock::time_point deadline) {
    auto& room = *channel_->room;
    {
      const std::lock_guard lock(room.mutex);
      if (++meeting.departed == static_cast<int64_t>(members.size())) {
        room.meetings.erase(key);
        room.changed.notify_all();
        return;
      }
    }
    // The others may still be reading what this rank laid down.
    wait_for_all(meeting, meeting.departed, members, call, deadline);
  }

  /// Waits until `count` reaches the number of members; `count` is guarded by the room's mutex.
  void wait_for_all(
      Meeting& meeting,
      const int64_t& count,
      const std::vector<int64_t>& members,
      const Call& call,
      Clock::time_point deadline) {
    auto& room = *channel_->room;
    const auto& hub = *channel_->hub;
    const bool reading = &count == &meeting.departed;
    const auto is_missing = [&](int64_t member) { return !meeting.present[member]; };
    const auto lost_member = [&]() -> int64_t {
      for (const auto member : members) {
        if (hub.has_left(ranks()[member]) && (reading || is_missing(member))) {
          return member;
        }
      }
      return -1;
    };
    std::unique_lock lock(room.mutex);
    const bool in_time = room.changed.wait_until(lock, deadline, [&] {
      return count == static_cast<int64_t>(members.size()) || !meeting.error.empty() || lost_member() >= 0;
    });
    if (count == static_cast<int64_t>(members.size()) && meeting.error.empty()) {
      return;
    }
    if (!meeting.error.empty()) {
      fail(call, meeting.error, "Look for a branch that depends on the rank");
    }
    if (const auto lost = lost_member(); lost >= 0) {
      if (reading) {
        return; // it read, or it failed and reads no more
      }
      fail(
          call, c10::str("rank ", ranks()[lost], " takes no part: ", hub.why_left(ranks()[lost])),
          "Every rank of the group must make this call");
    }
    TORCH_INTERNAL_ASSERT(!in_time);
    std::string missing;
    for (const auto member : members) {
      if (reading || is_missing(member)) {
        missing += (missing.empty() ? "" : ",") + std::to_string(ranks()[member]);
      }
    }
    fail(
        call, c10::str("within ", hub.timeout_.count(), " ms not every rank arrived; missing: ", missing),
        "Every rank of the group must make this call");
  }

  [[noreturn]] void fail(const Call& call, const std::string& what, const char* advice) const {
    TORCH_CHECK_WITH(
        DistBackendError, false, "[", call.to_string(), "] call ", call.sequence, " of ", to_string(),
        " failed on rank ", ranks()[rank()], ": ", what, ". ", advice, ".");
  }

  std::shared_ptr<ThreadChannel> channel_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadHub> hub, int64_t rank)
      : Communicator(rank, hub->size_, hub->timeout_), hub_(std::move(hub)) {}

 protected:
  std::shared_ptr<Group> make_group(
      std::string label,
      std::vector<int64_t> ranks,
      int64_t rank_in_group,
      c10::DeviceType /*device_type*/) override {
    auto& channel = channels_[ranks];
    if (!channel) {
      channel = std::make_shared<ThreadChannel>();
      channel->hub = hub_;
      channel->room = hub_->room(ranks);
    }
    return std::make_shared<ThreadGroup>(*this, std::move(label), std::move(ranks), rank_in_group, channel);
  }

 private:
  std::shared_ptr<ThreadHub> hub_;
  std::map<std::vector<int64_t>, std::shared_ptr<ThreadChannel>> channels_;
};

c10::intrusive_ptr<Communicator> ThreadHub::communicator(int64_t rank) {
  return c10::make_intrusive<ThreadCommunicator>(shared_from_this(), rank);
}

} // namespace weft
