#include "weft/overlap/symmetric_memory.h"

#include "weft/core/shard_math.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/util/accumulate.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>

#include <atomic>
#include <fstream>
#include <set>

namespace weft {

namespace symmetric = c10d::symmetric_memory;

namespace {

constexpr int kReady = 0; // channels of signals: the values were written and may be read
constexpr int kRead = 1;  // the values were read and may be overwritten
constexpr const char* kReached = "reached";
constexpr int64_t kGranularity = int64_t{2} << 20;

c10::Stream stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// Makes the stream `second` wait for all work that is on the stream `first` now.
void follow(const c10::Stream& first, const c10::Stream& second) {
  c10::Event event(first.device_type());
  event.record(first);
  event.block(second);
}

/// Makes the main stream wait for the side stream at the end of a scope, also after errors, because buffers must
/// outlive the copies into them.
class Rejoin {
 public:
  Rejoin(const c10::Stream& side, const c10::Stream& main) : side_(side), main_(main) {}
  ~Rejoin() {
    try {
      follow(side_, main_);
    } catch (const std::exception&) { // the device has failed, and nothing is copied any more
    }
  }
  Rejoin(const Rejoin&) = delete;
  Rejoin& operator=(const Rejoin&) = delete;

 private:
  c10::Stream side_;
  c10::Stream main_;
};

/// A text that is the same for processes of one running host.
std::string host() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  std::string name(256, '\0');
  ::gethostname(name.data(), name.size() - 1);
  return id + name.c_str();
}

/// The answers of all members, in the order of the members.
std::vector<std::string> ask_all(
    c10d::Store& store,
    const std::string& question,
    const std::string& answer,
    int64_t rank,
    int64_t size,
    std::chrono::milliseconds timeout) {
  const auto key = [&](int64_t member) { return question + "/" + std::to_string(member); };
  store.set(key(rank), std::vector<uint8_t>(answer.begin(), answer.end()));
  std::vector<std::string> answers;
  for (int64_t member = 0; member < size; ++member) {
    store.wait({key(member)}, timeout);
    const auto bytes = store.get(key(member));
    answers.emplace_back(bytes.begin(), bytes.end());
  }
  return answers;
}

bool may_share_devices() {
  const auto* allowed = std::getenv("TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES");
  return allowed != nullptr && std::string_view(allowed) == "1";
}

/// Whether these hosts and devices, one per member, allow shared memory.
bool suits(const std::vector<std::string>& hosts, const std::vector<std::string>& devices) {
  return std::set(hosts.begin(), hosts.end()).size() == 1 &&
      (std::set(devices.begin(), devices.end()).size() == devices.size() || may_share_devices());
}

/// A chunk's values in a tensor that holds the shard.
at::Tensor values_in(const at::Tensor& tensor, const Chunk& shard, const Chunk& chunk, int64_t dim) {
  return tensor.narrow(dim, chunk.begin - shard.begin, chunk.length);
}

/// The number of elements of the largest shard.
int64_t largest_shard(const at::Tensor& like, const ChunkedDim& chunked, int64_t members) {
  const auto sizes = with_size(like.sizes(), chunked.dim, chunked.size);
  return c10::multiply_integers(largest_local_shape(sizes, {Shard(chunked.dim)}, members));
}

} // namespace

SymmetricMemory* SymmetricMemory::of(BackendGroup& group, c10::Device device) {
  auto* const memory = group.channel().attachment([&](const auto& store, int64_t rank, int64_t size) {
    return std::shared_ptr<SymmetricMemory>(make(store, rank, size, device, group.timeout()));
  });
  return static_cast<SymmetricMemory*>(memory);
}

std::unique_ptr<SymmetricMemory> SymmetricMemory::make(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t size,
    c10::Device device,
    std::chrono::milliseconds timeout) {
  const auto ask = [&](const std::string& question, const std::string& answer) {
    return ask_all(*store, question, answer, rank, size, timeout);
  };
  const auto hosts = ask("host", host());
  const auto devices = ask("device", device.str());
  if (!suits(hosts, devices)) {
    return nullptr;
  }
  std::unique_ptr<SymmetricMemory> memory(new SymmetricMemory(store, rank, size, device, timeout));
  std::string outcome = kReached;
  try {
    memory->reserve(kGranularity);
  } catch (const std::exception& error) {
    outcome = error.what();
    outcome.resize(std::min(outcome.find('\n'), outcome.size()));
  }
  const auto outcomes = ask("outcome", outcome);
  for (int64_t member = 0; member < size; ++member) {
    if (outcomes[member] != kReached) {
      TORCH_WARN(
          "[comm] devices of type ", device.type(),
          " do not share memory, so that chunks are sent as messages: ", outcomes[member], " (member ", member, ")");
      return nullptr;
    }
  }
  return memory;
}

SymmetricMemory::SymmetricMemory(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t size,
    c10::Device device,
    std::chrono::milliseconds timeout)
    : group_(c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(rank), static_cast<int>(size))),
      rank_(rank),
      size_(size),
      device_(device),
      timeout_ms_(timeout.count()),
      side_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {
  static std::atomic<int64_t> count = 0;
  name_ = "weft/symmetric_memory/" + std::to_string(count++);
  c10d::register_process_group(name_, group_);
}

SymmetricMemory::~SymmetricMemory() {
  c10d::unregister_process_group(name_);
}

void SymmetricMemory::reserve(int64_t bytes) {
  const auto rounded = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  if (memory_.defined() && memory_.numel() >= rounded) {
    return;
  }
  if (handle_) {
    // After this no member reads the old memory any more, and no kernel of this member still waits for a signal in it.
    handle_->barrier(kReady, timeout_ms_);
    c10::impl::VirtualGuardImpl(device_.type()).synchronizeStream(stream_of(device_));
  }
  memory_ = symmetric::empty_strided_p2p({rounded}, {1}, c10::kByte, device_, name_, std::nullopt);
  handle_ = symmetric::rendezvous(memory_, name_);
}

void SymmetricMemory::prepare(int64_t bytes) {
  if (is_unread_) {
    for (int64_t step = 1; step < size_; ++step) {
      handle_->wait_signal(static_cast<int>((rank_ + step) % size_), kRead, timeout_ms_);
    }
    is_unread_ = false;
  }
  reserve(bytes);
}

at::Tensor SymmetricMemory::buffer(
    int64_t member,
    const at::Tensor& like,
    const ChunkedDim& chunked,
    int64_t owner,
    int64_t slot) {
  const auto sizes = with_size(like.sizes(), chunked.dim, member_shard(chunked, size_, owner).length);
  return handle_->get_buffer(
      static_cast<int>(member), sizes, like.scalar_type(), slot * largest_shard(like, chunked, size_));
}

void SymmetricMemory::gather(
    const at::Tensor& shard,
    const ChunkedDim& chunked,
    const at::Tensor& gathered,
    const ConsumeChunk& consume) {
  const auto main = stream_of(device_);
  const auto own = member_shard(chunked, size_, rank_);
  prepare(largest_shard(shard, chunked, size_) * shard.element_size());
  buffer(rank_, shard, chunked, rank_).copy_(shard);
  auto sizes = shard.sizes().vec();
  sizes[chunked.dim] = chunked.size;
  const auto target = gathered.defined() ? gathered : at::empty(sizes, shard.options());
  follow(main, side_);
  const Rejoin rejoin(side_, main);
  std::vector<std::pair<Chunk, c10::Event>> arrivals;
  {
    const c10::StreamGuard guard(side_);
    for (int64_t step = 1; step < size_; ++step) {
      handle_->put_signal(static_cast<int>((rank_ + size_ - step) % size_), kReady, timeout_ms_);
    }
    for (int64_t step = 1; step < size_; ++step) {
      const auto member = (rank_ + step) % size_;
      const auto theirs_at = member_shard(chunked, size_, member);
      const auto theirs = buffer(member, shard, chunked, member);
      handle_->wait_signal(static_cast<int>(member), kReady, timeout_ms_);
      for (const auto& at : chunks_of(theirs_at, chunked.chunks)) {
        target.narrow(chunked.dim, at.begin, at.length).copy_(values_in(theirs, theirs_at, at, chunked.dim));
        arrivals.emplace_back(at, c10::Event(device_.type())).second.record(side_);
      }
      handle_->put_signal(static_cast<int>(member), kRead, timeout_ms_);
    }
    is_unread_ = true;
  }
  if (own.length > 0) {
    consume(own, shard);
  }
  for (auto& [at, event] : arrivals) {
    event.block(main);
    consume(at, target.narrow(chunked.dim, at.begin, at.length));
  }
  if (gathered.defined()) {
    gathered.narrow(chunked.dim, own.begin, own.length).copy_(shard);
  }
}

void SymmetricMemory::scatter(const at::Tensor& output, const ChunkedDim& chunked, const ProduceChunk& produce) {
  const auto main = stream_of(device_);
  const auto own = member_shard(chunked, size_, rank_);
  prepare(largest_shard(output, chunked, size_) * (size_ - 1) * output.element_size());
  auto sizes = output.sizes().vec();
  sizes.insert(sizes.begin(), size_);
  const auto terms = at::empty(sizes, output.options()); // this member's own first, then the others as they arrive
  follow(main, side_);
  const Rejoin rejoin(side_, main);
  // A member writes for the next member first and reads from the one before it first, so that signals never cross.
  for (int64_t step = 1; step < size_; ++step) {
    const auto to = (rank_ + step) % size_;
    const auto from = (rank_ + size_ - step) % size_;
    const auto shard = member_shard(chunked, size_, to);
    const auto mine = buffer(rank_, output, chunked, to, step - 1);
    const auto theirs = buffer(from, output, chunked, rank_, step - 1);
    for (const auto& at : chunks_of(shard, chunked.chunks)) {
      produce(at, values_in(mine, shard, at, chunked.dim), /*adds=*/false);
      handle_->put_signal(static_cast<int>(to), kReady, timeout_ms_);
    }
    const c10::StreamGuard guard(side_);
    for (const auto& at : chunks_of(own, chunked.chunks)) {
      handle_->wait_signal(static_cast<int>(from), kReady, timeout_ms_);
      values_in(terms[step], own, at, chunked.dim).copy_(values_in(theirs, own, at, chunked.dim));
    }
    handle_->put_signal(static_cast<int>(from), kRead, timeout_ms_);
  }
  is_unread_ = true;
  if (own.length > 0) {
    produce(own, terms[0], /*adds=*/false);
  }
  follow(side_, main);
  auto sum = output; // a copy of the handle, since out functions take what they write by reference
  if (size_ == 2) {
    at::add_out(sum, terms[0], terms[1]);
  } else {
    at::sum_out(sum, terms, 0);
  }
}

} // namespace weft
