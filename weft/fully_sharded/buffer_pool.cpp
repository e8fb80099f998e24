#include "weft/fully_sharded/buffer_pool.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>

namespace weft {

namespace {

/// Reads and writes raise an error, instead of ending the process at the address 0.
template <typename StorageImpl>
void forbid_access(StorageImpl& storage) {
  if constexpr (can_allow_access<StorageImpl>) {
    storage.release_data_and_set_meta_custom_data_ptr_error_msg_(
        "[fully_shard] a gathered parameter is required while its values are there, but got one, or a view of one, "
        "that "
        "has been freed since its module's forward. Return it, or the results that need it in backward, as tensors in "
        "tuples, lists, dicts or fields of objects, where fully_shard finds them; or call unshard() before and "
        "reshard() after.");
  }
}

template <typename StorageImpl>
void allow_access(StorageImpl& storage) {
  if constexpr (can_allow_access<StorageImpl>) {
    storage.clear_data_ptr_access_error_msg_();
  }
}

} // namespace

at::DataPtr BufferPool::take(size_t bytes, c10::Device device) {
  const std::lock_guard lock(mutex_);
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    // A much larger one would keep more memory than the buffers that are in use at once need.
    const bool fits = it->memory.device() == device && it->bytes >= bytes && it->bytes <= 2 * bytes;
    if (fits && (best == free_.end() || it->bytes < best->bytes)) {
      best = it;
    }
  }
  if (best == free_.end()) {
    const c10::DeviceGuard guard(device); // allocators of devices take the current one
    return c10::GetAllocator(device.type())->allocate(bytes);
  }
  auto memory = std::move(best->memory);
  free_.erase(best);
  return memory;
}

void BufferPool::give(at::DataPtr memory, size_t bytes) {
  if (const auto device = memory.device(); !device.is_cpu()) {
    // It was taken on this stream, or on another one.
    const c10::impl::VirtualGuardImpl guard(device.type());
    guard.recordDataPtrOnStream(memory, guard.getStream(device));
    return;
  }
  const std::lock_guard lock(mutex_);
  free_.push_back({std::move(memory), bytes});
  if (free_.size() > kMostFree) {
    free_.erase(free_.begin()); // the one that has been free for longest
  }
}

size_t BufferPool::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& each : free_) {
    total += each.bytes;
  }
  return total;
}

PooledBuffer::PooledBuffer(int64_t length, const at::TensorOptions& options, int64_t spare) {
  const c10::InferenceMode normal(false); // the buffer may be made there and used outside
  const at::AutoDispatchBelowADInplaceOrView guard;
  const auto bytes = static_cast<size_t>(length + spare) * options.dtype().itemsize();
  tensor_ = at::empty({0}, options.requires_grad(false));
  const auto device = tensor_.device(); // with its index
  const c10::Storage storage(
      c10::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, device), c10::GetAllocator(device.type()),
      /*resizable=*/false);
  tensor_.set_(storage, 0, {length}, {1});
  forbid_access(*tensor_.storage().unsafeGetStorageImpl());
}

PooledBuffer::~PooledBuffer() {
  // Views that outlive the buffer, and a collective that failed, keep the memory.
  if (tensor_.storage().use_count() == 1) {
    release();
  }
}

void PooledBuffer::take(std::shared_ptr<BufferPool> pool) {
  if (!has_memory_) {
    pool_ = std::move(pool);
    const auto& storage = tensor_.storage();
    allow_access(*storage.unsafeGetStorageImpl());
    storage.set_data_ptr(pool_->take(storage.nbytes(), tensor_.device()));
    has_memory_ = true;
  }
}

void PooledBuffer::release() {
  if (has_memory_) {
    const auto& storage = tensor_.storage();
    pool_->give(storage.set_data_ptr(at::DataPtr(nullptr, tensor_.device())), storage.nbytes());
    forbid_access(*storage.unsafeGetStorageImpl());
    has_memory_ = false;
  }
}

at::Tensor PooledBuffer::view(int64_t begin, c10::IntArrayRef sizes) const {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return tensor_.narrow(0, begin, c10::multiply_integers(sizes)).view(sizes);
}

} // namespace weft
