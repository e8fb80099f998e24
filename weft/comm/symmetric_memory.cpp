#include "weft/comm/symmetric_memory.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sum.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <set>

namespace weft {

namespace symmetric = c10d::symmetric_memory;

namespace {

constexpr int kReady = 0; // channels of signals: what was written may be read
constexpr int kRead = 1;  // it was read, and may be written over
constexpr int64_t kGranularity = int64_t{2} << 20;

c10::Stream stream_of(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// `second` goes on when all that `first` has so far is done.
void follow(const c10::Stream& first, const c10::Stream& second) {
  c10::Event event(first.device_type());
  event.record(first);
  event.block(second);
}

/// Makes one stream wait for another on the way out, errors included: buffers must outlive the copies into them.
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

/// What every member says, in order.
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

/// Whether these hosts and devices, one answer per member, allow it.
bool suits(const std::vector<std::string>& hosts, const std::vector<std::string>& devices) {
  return std::set(hosts.begin(), hosts.end()).size() == 1 &&
      (std::set(devices.begin(), devices.end()).size() == devices.size() || may_share_devices());
}

/// Calls `take(start, length)` for each of the pieces that a length is cut into.
template <class Take>
void for_each_chunk(int64_t length, int64_t chunks, const Take& take) {
  const auto step = std::max<int64_t>((length + chunks - 1) / std::max<int64_t>(chunks, 1), 1);
  for (int64_t start = 0; start < length; start += step) {
    take(start, std::min(step, length - start));
  }
}

std::vector<int64_t> starts_of(c10::IntArrayRef lengths) {
  std::vector<int64_t> starts = {0};
  for (const auto length : lengths) {
    starts.push_back(starts.back() + length);
  }
  return starts;
}

} // namespace

std::unique_ptr<SymmetricMemory> SymmetricMemory::make(
    const c10::intrusive_ptr<c10d::Store>& store,
    int64_t rank,
    int64_t size,
    c10::Device device,
    std::chrono::milliseconds timeout) {
  const auto ask = [&](const std::string& question, const std::string& answer) {
    return ask_all(*store, question, answer, rank, size, timeout);
  };
  const bool has_allocator = symmetric::has_allocator(device.type());
  const auto hosts = ask("host", has_allocator ? host() : "none of rank " + std::to_string(rank));
  const auto devices = ask("device", device.str());
  if (!suits(hosts, devices)) {
    return nullptr;
  }
  static std::atomic<int64_t> count = 0;
  const auto name = "weft/" + std::to_string(count++);
  symmetric::set_group_info(name, static_cast<int>(rank), static_cast<int>(size), store);
  std::unique_ptr<SymmetricMemory> memory(new SymmetricMemory(name, rank, size, device, timeout));
  std::string outcome = "reached";
  try {
    memory->reserve(kGranularity);
  } catch (const std::exception& error) {
    outcome = error.what();
  }
  const auto outcomes = ask("outcome", outcome);
  const bool all = std::all_of(outcomes.begin(), outcomes.end(), [](const auto& text) { return text == "reached"; });
  return all ? std::move(memory) : nullptr;
}

SymmetricMemory::SymmetricMemory(
    std::string name,
    int64_t rank,
    int64_t size,
    c10::Device device,
    std::chrono::milliseconds timeout)
    : name_(std::move(name)),
      rank_(rank),
      size_(size),
      device_(device),
      timeout_ms_(timeout.count()),
      side_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device, /*isHighPriority=*/true)) {}

void SymmetricMemory::reserve(int64_t bytes) {
  const auto rounded = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  if (memory_.defined() && memory_.numel() >= rounded) {
    return;
  }
  if (handle_) {
    // Nobody reads the old memory any more, and no kernel of ours still waits for a signal in it.
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

at::Tensor SymmetricMemory::buffer(int64_t member, int64_t start, c10::IntArrayRef sizes, c10::ScalarType dtype) {
  return handle_->get_buffer(static_cast<int>(member), sizes, dtype, start);
}

void SymmetricMemory::gather(
    const at::Tensor& shard,
    c10::IntArrayRef lengths,
    int64_t chunks,
    const at::Tensor& whole,
    bool keeps_own,
    const Consume& consume) {
  const auto main = stream_of(device_);
  const auto starts = starts_of(lengths);
  const auto longest = *std::max_element(lengths.begin(), lengths.end());
  const auto row_bytes = whole.numel() / std::max<int64_t>(whole.size(0), 1) * whole.element_size();
  prepare(longest * row_bytes);
  buffer(rank_, 0, shard.sizes(), shard.scalar_type()).copy_(shard);
  follow(main, side_);
  const Rejoin rejoin(side_, main);
  struct Arrival {
    int64_t start;
    int64_t length;
    c10::Event event;
  };
  std::vector<Arrival> arrivals;
  {
    const c10::StreamGuard guard(side_);
    for (int64_t step = 1; step < size_; ++step) {
      handle_->put_signal(static_cast<int>((rank_ + size_ - step) % size_), kReady, timeout_ms_);
    }
    for (int64_t step = 1; step < size_; ++step) {
      const auto member = (rank_ + step) % size_;
      auto sizes = whole.sizes().vec();
      sizes[0] = lengths[member];
      handle_->wait_signal(static_cast<int>(member), kReady, timeout_ms_);
      const auto theirs = buffer(member, 0, sizes, whole.scalar_type());
      for_each_chunk(lengths[member], chunks, [&](int64_t start, int64_t length) {
        whole.narrow(0, starts[member] + start, length).copy_(theirs.narrow(0, start, length));
        arrivals.push_back({starts[member] + start, length, c10::Event(device_.type())});
        arrivals.back().event.record(side_);
      });
      handle_->put_signal(static_cast<int>(member), kRead, timeout_ms_);
    }
    is_unread_ = true;
  }
  if (shard.size(0) > 0) {
    consume(starts[rank_], shard);
  }
  for (auto& arrival : arrivals) {
    arrival.event.block(main);
    consume(arrival.start, whole.narrow(0, arrival.start, arrival.length));
  }
  if (keeps_own) {
    whole.narrow(0, starts[rank_], lengths[rank_]).copy_(shard);
  }
}

at::Tensor SymmetricMemory::scatter(
    c10::IntArrayRef lengths,
    c10::IntArrayRef row_sizes,
    int64_t chunks,
    const at::TensorOptions& options,
    bool averages,
    const Produce& produce) {
  const auto main = stream_of(device_);
  const auto dtype = options.dtype().toScalarType();
  const auto starts = starts_of(lengths);
  const auto longest = *std::max_element(lengths.begin(), lengths.end());
  const auto row_elements = c10::multiply_integers(row_sizes);
  const auto slot = longest * row_elements;
  prepare(slot * (size_ - 1) * static_cast<int64_t>(c10::elementSize(dtype)));
  auto sizes = row_sizes.vec();
  sizes.insert(sizes.begin(), lengths[rank_]);
  sizes.insert(sizes.begin(), size_);
  const auto addends = at::empty(sizes, options); // this member's own first, then as they arrive
  follow(main, side_);
  const Rejoin rejoin(side_, main);
  // Members write for the one after them first, and read from the one before them first: signals never cross.
  for (int64_t step = 1; step < size_; ++step) {
    const auto to = (rank_ + step) % size_;
    const auto from = (rank_ + size_ - step) % size_;
    auto piece_sizes = row_sizes.vec();
    piece_sizes.insert(piece_sizes.begin(), lengths[to]);
    const auto mine = buffer(rank_, (step - 1) * slot, piece_sizes, dtype);
    piece_sizes[0] = lengths[rank_];
    const auto theirs = buffer(from, (step - 1) * slot, piece_sizes, dtype);
    for_each_chunk(lengths[to], chunks, [&](int64_t start, int64_t length) {
      produce(starts[to] + start, mine.narrow(0, start, length));
      handle_->put_signal(static_cast<int>(to), kReady, timeout_ms_);
    });
    const c10::StreamGuard guard(side_);
    for_each_chunk(lengths[rank_], chunks, [&](int64_t start, int64_t length) {
      handle_->wait_signal(static_cast<int>(from), kReady, timeout_ms_);
      addends[step].narrow(0, start, length).copy_(theirs.narrow(0, start, length));
    });
    handle_->put_signal(static_cast<int>(from), kRead, timeout_ms_);
  }
  is_unread_ = true;
  if (lengths[rank_] > 0) {
    produce(starts[rank_], addends[0]);
  }
  follow(side_, main);
  auto sum = size_ == 2 ? at::add(addends[0], addends[1]) : at::sum(addends, 0);
  return averages ? sum.div_(size_) : sum;
}

} // namespace weft
