#include "weft/comm/shared_memory/mailbox.h"

#include <algorithm>
#include <iterator>

namespace weft {

CallNumbers CallNumbers::of(const Call& call) {
  CallNumbers numbers{
      .sequence = call.sequence,
      .collective = static_cast<uint8_t>(call.collective),
      .op = static_cast<uint8_t>(call.op),
      .dtype = static_cast<int8_t>(call.dtype),
      .stage = static_cast<uint8_t>(call.stage),
      .ndim = static_cast<uint32_t>(call.sizes.size()),
      .root = call.root,
      .subject = call.subject,
      .sizes = {}};
  std::copy_n(call.sizes.begin(), std::min(call.sizes.size(), std::size(numbers.sizes)), numbers.sizes);
  return numbers;
}

Call CallNumbers::call() const {
  return {
      .collective = static_cast<Collective>(collective),
      .op = static_cast<ReduceOp>(op),
      .root = root,
      .dtype = static_cast<c10::ScalarType>(dtype),
      .sizes = c10::DimVector(sizes, sizes + std::min<size_t>(ndim, std::size(sizes))),
      .sequence = sequence,
      .stage = stage,
      .subject = subject};
}

bool CallNumbers::same_number(const Call& call) const {
  return sequence == call.sequence && stage == call.stage &&
      is_message(static_cast<Collective>(collective)) == is_message(call.collective);
}

Outbox::Outbox(PairMailbox* mailbox) : mailbox_(mailbox), free_(PairMailbox::kSlots) {
  // The slots that were used last are used again.
  for (uint32_t i = 0; i < PairMailbox::kSlots; ++i) {
    free_[i] = PairMailbox::kSlots - 1 - i;
  }
}

std::optional<Outbox::Ticket> Outbox::post(const CallNumbers& numbers, Place place, std::shared_ptr<SharedBlock> copy) {
  reclaim();
  if (free_.empty()) {
    return std::nullopt;
  }
  const Ticket ticket{free_.back(), posted_};
  free_.pop_back();
  auto& slot = mailbox_->slots[ticket.slot];
  slot.is_copy = place.is_copy ? 1 : 0;
  slot.place = place.place;
  slot.bytes = place.bytes;
  slot.numbers = numbers;
  slot.state.store(MessageSlot::Posted, std::memory_order_relaxed);
  copied_bytes_ += copy ? static_cast<int64_t>(place.bytes) : 0;
  unread_.push_back({ticket, std::move(copy)});
  mailbox_->order[posted_++ % PairMailbox::kSlots].store(ticket.slot + 1, std::memory_order_release);
  return ticket;
}

Outbox::Unread* Outbox::find(Ticket ticket) {
  for (auto& message : unread_) {
    if (message.ticket.number == ticket.number) {
      return &message;
    }
  }
  return nullptr;
}

bool Outbox::is_read(Ticket ticket) {
  return find(ticket) == nullptr || state(ticket) == MessageSlot::Read;
}

bool Outbox::move(Ticket ticket, std::shared_ptr<SharedBlock> copy) {
  auto* const message = find(ticket);
  uint32_t expected = MessageSlot::Posted;
  if (message == nullptr || !state(ticket).compare_exchange_strong(expected, MessageSlot::Moving)) {
    return false;
  }
  auto& slot = mailbox_->slots[ticket.slot];
  slot.is_copy = 1;
  slot.place = static_cast<uint64_t>(copy->offset());
  copied_bytes_ += static_cast<int64_t>(slot.bytes);
  message->copy = std::move(copy);
  state(ticket).store(MessageSlot::Posted, std::memory_order_release);
  return true;
}

void Outbox::revoke(Ticket ticket) {
  if (find(ticket) == nullptr) {
    return;
  }
  uint32_t expected = MessageSlot::Posted;
  if (!state(ticket).compare_exchange_strong(expected, MessageSlot::Revoked)) {
    expected = MessageSlot::Claimed;
    state(ticket).compare_exchange_strong(expected, MessageSlot::Revoked);
  }
}

void Outbox::reclaim() {
  std::erase_if(unread_, [&](Unread& message) {
    if (state(message.ticket).load(std::memory_order_acquire) != MessageSlot::Read) {
      return false;
    }
    const auto& slot = mailbox_->slots[message.ticket.slot];
    copied_bytes_ -= message.copy ? static_cast<int64_t>(slot.bytes) : 0;
    free_.push_back(message.ticket.slot);
    return true;
  });
}

std::vector<std::shared_ptr<SharedBlock>> Outbox::take_copies() {
  reclaim();
  std::vector<std::shared_ptr<SharedBlock>> copies;
  for (auto& message : unread_) {
    if (message.copy) {
      copies.push_back(std::move(message.copy));
    }
  }
  return copies;
}

void Inbox::list_posted() {
  while (true) {
    auto& entry = mailbox_->order[seen_ % PairMailbox::kSlots];
    const auto slot = entry.load(std::memory_order_acquire);
    if (slot == 0) {
      return;
    }
    entry.store(0, std::memory_order_relaxed);
    listed_.push_back(slot - 1);
    ++seen_;
  }
}

MessageSlot* Inbox::take(const Call& call) {
  list_posted();
  for (auto each = listed_.begin(); each != listed_.end(); ++each) {
    auto& slot = mailbox_->slots[*each];
    if (!slot.numbers.same_number(call)) {
      continue;
    }
    uint32_t expected = MessageSlot::Posted;
    if (!slot.state.compare_exchange_strong(expected, MessageSlot::Claimed) && expected == MessageSlot::Moving) {
      return nullptr; // in an instant
    }
    listed_.erase(each);
    return &slot;
  }
  return nullptr;
}

std::optional<Call> Inbox::first_listed() const {
  if (listed_.empty()) {
    return std::nullopt;
  }
  return mailbox_->slots[listed_.front()].numbers.call();
}

bool finish_reading(MessageSlot& slot) {
  uint32_t expected = MessageSlot::Claimed;
  return slot.state.compare_exchange_strong(expected, MessageSlot::Read);
}

} // namespace weft
