#include "weft/comm/world/thread_world.h"

#include "weft/comm/reduce_terms.h"
#include "weft/comm/stream_point.h"
#include "weft/comm/world/first_failure.h"

#include <c10/util/Exception.h>

#include <condition_variable>

namespace weft {

namespace {

/// What this rank has given its stream until now, on the device of the first tensor.
StreamPoint stream_point(std::initializer_list<Tensors> lists) {
  for (const auto& tensors : lists) {
    for (const auto& tensor : tensors) {
      if (tensor.defined()) {
        return StreamPoint::now(tensor.device());
      }
    }
  }
  return {};
}

/// The meeting of one call's members. Every member puts down its contribution: the tensors that it sends, and those
/// that it receives into. Once all have, a member that waits completes its own contribution and then every one that no
/// member has taken. So no rank waits for another rank that has already started the call, in whatever order the ranks
/// wait.
struct Meeting {
  struct Contribution {
    std::vector<at::Tensor> sends;
    std::vector<at::Tensor> recvs;
    at::Tensor reduced; // instead of recvs: becomes the reduction of the tensors sent to this member
    // Every rank may have a stream of its own, and any of them completes the contribution.
    StreamPoint given = {};
    StreamPoint completed = {};
    bool present = false;
    bool taken = false;
    std::exception_ptr error = {};
    std::string error_text = {};
  };

  explicit Meeting(int64_t members) : contributions(members) {}

  std::vector<Contribution> contributions;
  size_t arrived = 0;
  size_t done = 0;
  Call first_call{};
  int64_t first_member = -1;
  std::string disagreement;
  bool is_given_up = false; // by a member that has not met all others
};

/// A collective is identified by its number, a message also by its sender and receiver.
using MeetingKey = std::tuple<uint64_t, int64_t, int64_t, int64_t>;

} // namespace

/// The meetings of one group, and the call numbers of each member. It lives as long as one member holds it, so that a
/// member that releases the group while others hold it continues with its old numbers when it returns. When all members
/// have released it, their numbers are equal, because a call ends only after every member has made it (or has failed).
struct ThreadHub::Room {
  struct Calls {
    uint64_t collectives = 0;
    std::map<std::pair<Collective, int64_t>, uint64_t> messages = {}; // by direction and peer
  };

  explicit Room(int64_t members) : calls(members) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::map<MeetingKey, std::shared_ptr<Meeting>> meetings;
  std::vector<Calls> calls;
  FirstFailure first_failure;
};

ThreadHub::ThreadHub(int64_t size, std::chrono::milliseconds timeout)
    : size_(size), timeout_(timeout), left_(size), reasons_(size) {}

ThreadHub::~ThreadHub() = default;

std::shared_ptr<ThreadHub::Room> ThreadHub::room(const GroupDescription& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(rooms_, [](const auto& entry) { return entry.second.expired(); });
  auto room = rooms_[group.identity].lock();
  if (!room) {
    room = std::make_shared<Room>(group.ranks.size());
    rooms_[group.identity] = room;
  }
  return room;
}

size_t ThreadHub::room_count() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(rooms_.begin(), rooms_.end(), [](const auto& entry) { return !entry.second.expired(); });
}

void ThreadHub::keep(std::shared_ptr<Room> room) {
  const std::lock_guard lock(mutex_);
  failed_rooms_.insert(std::move(room));
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
    for (const auto& [identity, held] : rooms_) {
      if (auto room = held.lock()) {
        rooms.push_back(std::move(room));
      }
    }
  }
  for (const auto& room : rooms) {
    const std::lock_guard lock(room->mutex);
    room->changed.notify_all();
  }
}

class ThreadGroup : public Group {
 public:
  ThreadGroup(
      Communicator& communicator,
      GroupDescription description,
      std::shared_ptr<ThreadHub> hub,
      std::shared_ptr<ThreadHub::Room> room)
      : Group(communicator, std::move(description)), hub_(std::move(hub)), room_(std::move(room)) {}

 protected:
  uint64_t next_sequence() override {
    const std::lock_guard lock(room_->mutex);
    return room_->calls[rank()].collectives++;
  }
  uint64_t next_message(Collective direction, int64_t peer) override {
    const std::lock_guard lock(room_->mutex);
    return room_->calls[rank()].messages[{direction, peer}]++;
  }

  Pending do_exchange(const Call& call, Tensors sends, Tensors recvs) override {
    return meet(call, sends, recvs, {});
  }
  Pending do_reduce_scatter(const Call& call, Tensors inputs, const at::Tensor& output) override {
    return meet(call, inputs, {}, output);
  }

 private:
  Pending meet(const Call& call, Tensors sends, Tensors recvs, const at::Tensor& reduced) {
    const bool between_two = is_message(call.collective);
    const auto from = call.collective == Collective::Send ? rank() : call.root;
    const auto to = call.collective == Collective::Send ? call.root : rank();
    const auto key =
        between_two ? MeetingKey{call.sequence, call.stage, from, to} : MeetingKey{call.sequence, call.stage, -1, -1};
    std::vector<int64_t> members;
    for (int64_t i = 0; i < size(); ++i) {
      if (!between_two || i == from || i == to) {
        members.push_back(i);
      }
    }
    auto meeting = arrive(
        key, members, call,
        {.sends = sends.vec(),
         .recvs = recvs.vec(),
         .reduced = reduced,
         .given = stream_point({sends, recvs, reduced})});
    return Pending([this, self = shared_from_this(), call, meeting, members = std::move(members)] {
      at::AutoDispatchBelowADInplaceOrView guard;
      attend(*meeting, members, call);
    });
  }

  std::shared_ptr<Meeting> arrive(
      const MeetingKey& key,
      const std::vector<int64_t>& members,
      const Call& call,
      Meeting::Contribution contribution) {
    auto& room = *room_;
    const std::lock_guard lock(room.mutex);
    auto& slot = room.meetings[key];
    if (!slot) {
      // Of a member that has left, wait_for_all says why.
      const bool all_are_here =
          std::none_of(members.begin(), members.end(), [&](int64_t member) { return hub_->has_left(ranks()[member]); });
      if (all_are_here) {
        check_usable(call);
      }
      slot = std::make_shared<Meeting>(size());
      slot->first_call = call;
      slot->first_member = rank();
    } else if (!call.matches(slot->first_call) && slot->disagreement.empty()) {
      slot->disagreement = c10::str(
          "all ranks must make the same call, but rank ", ranks()[slot->first_member], " called ",
          slot->first_call.to_string(), " and rank ", ranks()[rank()], " called ", call.to_string());
    }
    if (!slot->first_call.has_tensor()) {
      slot->first_call = call;
      slot->first_member = rank();
    }
    const auto meeting = slot;
    contribution.present = true;
    meeting->contributions[rank()] = std::move(contribution);
    if (++meeting->arrived == members.size()) {
      room.meetings.erase(key);
    }
    room.changed.notify_all();
    return meeting;
  }

  void attend(Meeting& meeting, const std::vector<int64_t>& members, const Call& call) {
    Meeting::Contribution own; // declared before the lock, so that its tensors are freed without it
    auto& room = *room_;
    std::unique_lock lock(room.mutex);
    wait_for_all(lock, meeting, members, call);
    const auto mine = std::find(members.begin(), members.end(), rank()) - members.begin();
    for (size_t step = 0; step < members.size(); ++step) {
      const auto member = members[(mine + step) % members.size()];
      if (meeting.contributions[member].taken) {
        continue;
      }
      meeting.contributions[member].taken = true;
      lock.unlock();
      complete(meeting, member);
      lock.lock();
      if (++meeting.done == members.size()) {
        room.changed.notify_all();
      }
    }
    room.changed.wait(lock, [&] { return meeting.done == members.size(); });
    // Of the other members too: they have read what this rank has sent, and may use again.
    for (const auto member : members) {
      meeting.contributions[member].completed.precede_current();
    }
    // Every rank takes out its own tensors and its own error. Otherwise whichever rank releases the meeting last would
    // free them, which may be late, and while this rank still handles the error. What other ranks read stays.
    own = std::move(meeting.contributions[rank()]);
    meeting.contributions[rank()].error_text = own.error_text;
    meeting.contributions[rank()].completed = own.completed;
    if (own.error) {
      remember_failure(own.error_text);
      std::rethrow_exception(own.error);
    }
    for (const auto member : members) {
      if (const auto& text = meeting.contributions[member].error_text; !text.empty()) {
        fail(call, c10::str("it failed on rank ", ranks()[member], ": ", text), "Look at the shapes on that rank");
      }
    }
  }

  /// Completes a member's contribution; an error is kept for that member.
  void complete(Meeting& meeting, int64_t member) const {
    auto& contribution = meeting.contributions[member];
    try {
      for (const auto& each : meeting.contributions) {
        each.given.precede_current();
      }
      if (contribution.reduced.defined()) {
        reduce_into(contribution.reduced, meeting, member);
      } else {
        receive_into(contribution.recvs, meeting, member);
      }
      contribution.completed = stream_point({contribution.sends, contribution.recvs, contribution.reduced});
    } catch (const c10::Error& error) {
      contribution.error = std::current_exception();
      contribution.error_text = error.what_without_backtrace();
    } catch (const std::exception& error) {
      contribution.error = std::current_exception();
      contribution.error_text = error.what();
    }
  }

  void receive_into(Tensors targets, const Meeting& meeting, int64_t member) const {
    for (int64_t i = 0; i < size(); ++i) {
      if (i == member || !targets[i].defined() || !meeting.contributions[i].present) {
        continue;
      }
      const auto& sent = meeting.contributions[i].sends[member];
      check_sizes(meeting, sent, targets[i], i, member);
      if (targets[i].numel() > 0) {
        targets[i].copy_(sent.sizes() == targets[i].sizes() ? sent : sent.reshape(targets[i].sizes()));
      }
    }
  }

  void reduce_into(const at::Tensor& output, const Meeting& meeting, int64_t member) const {
    std::vector<at::Tensor> terms;
    for (int64_t i = 0; i < size(); ++i) {
      const auto& sent = meeting.contributions[i].sends[member];
      check_sizes(meeting, sent, output, i, member);
      terms.push_back(sent.reshape(output.sizes()));
    }
    reduce_terms(output, terms, meeting.first_call.op);
  }

  void check_sizes(
      const Meeting& meeting,
      const at::Tensor& sent,
      const at::Tensor& target,
      int64_t from,
      int64_t member) const {
    TORCH_CHECK_VALUE(
        (sent.defined() ? sent.numel() : 0) == target.numel(), "[", meeting.first_call.to_string(), "] rank ",
        ranks()[member], " expects ", target.sizes(), " from rank ", ranks()[from], " in ", to_string(), ", but got ",
        sent.defined() ? c10::str(sent.sizes()) : "nothing", ". The ranks must agree on the shapes.");
  }

  /// Waits until every member has put down its contribution.
  void wait_for_all(
      std::unique_lock<std::mutex>& lock,
      Meeting& meeting,
      const std::vector<int64_t>& members,
      const Call& call) const {
    const auto& hub = *hub_;
    const auto all_there = [&] { return meeting.arrived == members.size(); };
    const auto lost_member = [&]() -> int64_t {
      for (const auto member : members) {
        if (!meeting.contributions[member].present && hub.has_left(ranks()[member])) {
          return member;
        }
      }
      return -1;
    };
    room_->changed.wait_for(
        lock, hub.timeout_, [&] { return all_there() || !meeting.disagreement.empty() || lost_member() >= 0; });
    if (!meeting.disagreement.empty()) {
      fail(call, meeting.disagreement, "Look for a branch that depends on the rank");
    }
    if (all_there() && !meeting.is_given_up) {
      return;
    }
    if (all_there()) {
      check_usable(call);
    }
    meeting.is_given_up = true;
    if (const auto lost = lost_member(); lost >= 0) {
      fail(
          call, c10::str("rank ", ranks()[lost], " does not participate: ", hub.why_left(ranks()[lost])),
          "Every rank of the group must make this call");
    }
    std::string missing;
    for (const auto member : members) {
      if (!meeting.contributions[member].present) {
        missing += (missing.empty() ? "" : ",") + std::to_string(ranks()[member]);
      }
    }
    fail(
        call, c10::str("within ", hub.timeout_.count(), " ms not every rank arrived; missing: ", missing),
        "Every rank of the group must make this call");
  }

  /// Raises after a call of the group has failed. A member that arrives late must not read the tensor of a member that
  /// has given up the call, because the tensor may have been overwritten since. The caller holds the room's lock, as
  /// for fail().
  void check_usable(const Call& call) const {
    room_->first_failure.check_none(*this, call);
  }

  void remember_failure(const std::string& text) const {
    hub_->keep(room_);
    room_->first_failure.record(text);
  }

  [[noreturn]] void fail(const Call& call, const std::string& what, const char* advice) const {
    hub_->keep(room_);
    room_->first_failure.fail(*this, call, what, advice);
  }

  std::shared_ptr<ThreadHub> hub_;
  std::shared_ptr<ThreadHub::Room> room_;
};

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadHub> hub, int64_t rank)
      : Communicator(rank, hub->size_, hub->timeout_), hub_(std::move(hub)) {}

 protected:
  std::shared_ptr<Group> make_group(GroupDescription description) override {
    auto room = hub_->room(description);
    return std::make_shared<ThreadGroup>(*this, std::move(description), hub_, std::move(room));
  }

 private:
  std::shared_ptr<ThreadHub> hub_;
};

c10::intrusive_ptr<Communicator> ThreadHub::communicator(int64_t rank) {
  return c10::make_intrusive<ThreadCommunicator>(shared_from_this(), rank);
}

} // namespace weft
