#include "weft/comm/world/shared_memory_channel.h"

#include <c10/util/Exception.h>

#include <ATen/ops/from_blob.h>

#include <cstring>
#include <list>
#include <stdexcept>

#include <unistd.h>

namespace weft {

namespace {

using SteadyClock = std::chrono::steady_clock;

/// Up to this size a tensor is copied when it is sent, so that its sender never waits; a larger one is read by its
/// receivers from where it is, unless they take long, because a copy would take much memory. Reading another process's
/// memory is slower than two copies in the cache.
constexpr int64_t kCopiedBytes = 8 << 20;
/// A member waits for readers rather than copy more than this.
constexpr int64_t kMostCopiedBytes = int64_t{256} << 20;
/// How often a waiting member looks whether the others are alive.
constexpr std::chrono::milliseconds kLookEvery(20);

/// How long a sender waits for the readers of a tensor before it copies the bytes: some times as long as the copy takes.
std::chrono::nanoseconds patience(int64_t bytes) {
  return std::chrono::microseconds(100) + std::chrono::nanoseconds(bytes);
}

/// The memory of a channel that is gone, which other members still hold.
struct Retired {
  std::shared_ptr<SharedBlock> memory;
  std::vector<std::shared_ptr<SharedBlock>> copies;
  std::vector<std::shared_ptr<PeerProcess>> processes;

  bool is_held() const {
    const auto* memory_of_member = reinterpret_cast<const MemberMemory*>(memory->data());
    return memory_of_member->holders != 0 &&
        std::any_of(processes.begin(), processes.end(), [](const auto& process) { return process->is_alive(); });
  }
};

/// Keeps the memory of channels that are gone until no other member uses it.
void retire(std::optional<Retired> gone) {
  static auto* const mutex = new std::mutex();
  static auto* const retired = new std::list<Retired>();
  const std::lock_guard lock(*mutex);
  retired->remove_if([](const Retired& one) { return !one.is_held(); });
  if (gone && gone->is_held()) {
    retired->push_back(std::move(*gone));
  }
}

[[noreturn]] void raise_reason(const std::string& reason) {
  throw std::runtime_error(reason);
}

} // namespace

void Arrival::read(void* target, uint64_t offset, uint64_t bytes) const {
  if (const auto* data = mapped()) {
    std::memcpy(target, data + offset, bytes);
    return;
  }
  if (!sender_->read(target, slot_->place + offset, bytes)) {
    raise_reason("its process has ended");
  }
}

void Arrival::finish() const {
  const bool was_copy = slot_->is_copy != 0;
  if (!finish_reading(*slot_)) {
    raise_reason("it has given up the call");
  }
  if (was_copy) {
    bell_->ring_sleepers();
  } else {
    bell_->ring();
  }
}

SharedMemoryChannel::SharedMemoryChannel(
    int64_t rank,
    std::vector<Member> members,
    std::shared_ptr<SharedBlock> own,
    bool can_read,
    std::chrono::milliseconds timeout)
    : rank_(rank),
      members_(std::move(members)),
      own_(std::move(own)),
      can_read_(can_read),
      timeout_(timeout),
      process_(getpid()) {
  retire({});
  for (int64_t i = 0; i < static_cast<int64_t>(members_.size()); ++i) {
    outboxes_.emplace_back(members_[rank_].memory->mailbox_to(i));
    inboxes_.emplace_back(members_[i].memory->mailbox_to(rank_));
  }
}

SharedMemoryChannel::~SharedMemoryChannel() {
  if (process_ != getpid()) {
    return;
  }
  Retired gone{.memory = std::move(own_), .copies = {}, .processes = {}};
  for (int64_t i = 0; i < static_cast<int64_t>(members_.size()); ++i) {
    if (i != rank_) {
      --members_[i].memory->holders;
      gone.processes.push_back(members_[i].process);
    }
    for (auto& copy : outboxes_[i].take_copies()) {
      gone.copies.push_back(std::move(copy));
    }
  }
  retire(std::move(gone));
}

SharedMemoryChannel::Sending::~Sending() {
  if (!receivers_.empty()) {
    const std::lock_guard lock(channel_.mutex_);
    for (const auto& [member, ticket] : receivers_) {
      channel_.outboxes_[member].revoke(ticket);
    }
  }
}

std::shared_ptr<SharedMemoryChannel::Sending> SharedMemoryChannel::prepare(const at::Tensor& tensor) {
  auto sending = std::make_shared<Sending>(*this, tensor);
  const bool is_plain = tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
  const auto bytes = static_cast<int64_t>(tensor.nbytes());
  if (is_plain && can_read_ && bytes > kCopiedBytes) {
    return sending;
  }
  sending->copy_ = SharedArena::own()->take(bytes);
  if (!sending->copy_) {
    raise_reason(c10::str("no shared memory is left for ", bytes, " bytes"));
  }
  if (is_plain) {
    std::memcpy(sending->copy_->data(), tensor.const_data_ptr(), bytes);
  } else {
    at::from_blob(sending->copy_->data(), tensor.sizes(), tensor.options()).copy_(tensor);
  }
  return sending;
}

void SharedMemoryChannel::post(const Call& call, Sending& sending, int64_t to) {
  const auto& tensor = sending.tensor_;
  const auto& copy = sending.copy_;
  const Outbox::Place place{
      .is_copy = copy != nullptr,
      .place = copy ? static_cast<uint64_t>(copy->offset()) : reinterpret_cast<uint64_t>(tensor.const_data_ptr()),
      .bytes = static_cast<uint64_t>(tensor.nbytes())};
  const auto numbers = CallNumbers::of(call);
  std::optional<Outbox::Ticket> ticket;
  const bool posted = wait([&](bool /*looks*/) {
    const std::lock_guard lock(mutex_);
    ticket = ticket ? ticket : outboxes_[to].post(numbers, place, copy);
    return ticket.has_value();
  });
  if (!posted) {
    raise_reason(c10::str("it has not read the last ", PairMailbox::kSlots, " messages"));
  }
  if (!copy) {
    sending.receivers_.push_back({to, *ticket});
  }
  members_[to].memory->doorbell.ring();
}

bool SharedMemoryChannel::all_have_read(Sending& sending, bool looks) {
  const std::lock_guard lock(mutex_);
  std::erase_if(sending.receivers_, [&](const auto& each) { return outboxes_[each.member].is_read(each.ticket); });
  for (const auto& each : sending.receivers_) {
    if (looks && !members_[each.member].process->is_alive()) {
      raise_reason("a process that receives has ended");
    }
  }
  return sending.receivers_.empty();
}

void SharedMemoryChannel::copy_unread(Sending& sending) {
  const auto& tensor = sending.tensor_;
  auto copy = SharedArena::own()->take(static_cast<int64_t>(tensor.nbytes()));
  if (!copy) {
    return;
  }
  std::memcpy(copy->data(), tensor.const_data_ptr(), tensor.nbytes());
  const std::lock_guard lock(mutex_);
  std::erase_if(sending.receivers_, [&](const auto& each) {
    const bool is_moved = outboxes_[each.member].move(each.ticket, copy);
    if (is_moved) {
      members_[each.member].memory->doorbell.ring(); // it may have looked during the move, and sleep
    }
    return is_moved;
  });
}

void SharedMemoryChannel::settle(Sending& sending) {
  const auto attempt = [&](bool looks) { return all_have_read(sending, looks); };
  if (!sending.receivers_.empty() &&
      !wait_until(SteadyClock::now() + patience(static_cast<int64_t>(sending.tensor_.nbytes())), attempt)) {
    if (unread_copied_bytes() < kMostCopiedBytes) {
      copy_unread(sending);
    }
    if (!wait(attempt)) {
      raise_reason("not all members have read the tensor");
    }
  }
  // A member that only sends must not be ahead of its receivers by any number of calls.
  if (sending.copy_ && !wait([&](bool /*looks*/) { return unread_copied_bytes() <= kMostCopiedBytes; })) {
    raise_reason(c10::str("not all members have read the last ", unread_copied_bytes(), " bytes"));
  }
}

int64_t SharedMemoryChannel::unread_copied_bytes() {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (auto& outbox : outboxes_) {
    if (outbox.copied_bytes() > 0) {
      outbox.reclaim();
    }
    bytes += outbox.copied_bytes();
  }
  return bytes;
}

bool SharedMemoryChannel::wait(const Attempt& attempt) {
  return wait_until(SteadyClock::now() + timeout_, attempt);
}

bool SharedMemoryChannel::wait_until(SteadyClock::time_point end, const Attempt& attempt) {
  auto& doorbell = members_[rank_].memory->doorbell;
  auto next_look = SteadyClock::now() + kLookEvery;
  bool looks = false;
  while (true) {
    const auto seen = doorbell.rings();
    if (attempt(looks)) {
      return true;
    }
    const auto now = SteadyClock::now();
    if (now >= end || has_failed()) {
      return false;
    }
    looks = now >= next_look;
    if (looks) {
      next_look = now + kLookEvery;
      continue;
    }
    bool done = false;
    doorbell.wait(seen, std::min(end, next_look), spin_time_, [&] { return done = attempt(false); });
    if (done) {
      return true;
    }
  }
}

MessageSlot* SharedMemoryChannel::take(const Call& call, int64_t from) {
  const std::lock_guard lock(mutex_);
  return inboxes_[from].take(call);
}

std::optional<Arrival> SharedMemoryChannel::receive(const Call& call, int64_t from, uint64_t bytes, bool looks) {
  const auto& [process, memory] = members_[from];
  auto* slot = take(call, from);
  if (slot == nullptr) {
    const bool has_given_up = memory->has_failed != 0;
    if (!has_given_up && (!looks || process->is_alive())) {
      return std::nullopt;
    }
    slot = take(call, from); // it may have come just before the end
    if (slot == nullptr) {
      raise_reason(has_given_up ? c10::str("it has given up, because ", memory->failure) : "its process has ended");
    }
  }
  if (slot->state == MessageSlot::Revoked) {
    raise_reason("it has given up the call");
  }
  const auto made = slot->numbers.call();
  if (!made.matches(call) || slot->bytes != bytes) {
    const auto sent = slot->bytes;
    finish_reading(*slot);
    raise_reason(
        made.matches(call)
            ? c10::str("it has sent ", sent, " bytes by ", made.to_string(), ", but ", bytes, " are expected")
            : c10::str("it has called ", made.to_string(), " instead"));
  }
  return Arrival(slot, process.get(), &memory->doorbell);
}

std::string SharedMemoryChannel::describe_missing(int64_t from) {
  const std::lock_guard lock(mutex_);
  const auto text = c10::str("nothing has arrived within ", timeout_.count(), " ms");
  const auto other = inboxes_[from].first_listed();
  return other ? c10::str(text, " but its call ", other->sequence, ", ", other->to_string()) : text;
}

void SharedMemoryChannel::tell_failure(std::string_view what) {
  {
    const std::lock_guard lock(mutex_);
    auto& own = *members_[rank_].memory;
    if (own.has_failed != 0) {
      return;
    }
    what.copy(own.failure, sizeof(own.failure) - 1); // the rest is zeros
    own.has_failed = 1;
  }
  for (const auto& member : members_) {
    member.memory->doorbell.ring();
  }
}

} // namespace weft
