#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace weft {

/// Another process of this host whose shared memory this process maps. There is one object per process, whatever number of
/// groups it is a member of, so that groups cost neither mappings nor descriptors.
class PeerProcess {
 public:
  /// What this process tells others, so that they find it: the host, its id, and where its memory is. Empty where the
  /// system does not allow to share memory.
  static std::string own_address();

  /// The process at an address; nullptr if it is not on this host, or if this process may not map its memory.
  static std::shared_ptr<PeerProcess> find(const std::string& address);

  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// The process's shared memory.
  char* at(int64_t offset) const {
    return base_ + offset;
  }
  bool is_alive() const;
  /// Whether this process may read that process's memory outside of the shared memory.
  bool can_read() const {
    return can_read_;
  }
  /// Copies from any memory of that process. False if it has ended, or has no such memory.
  bool read(void* target, uint64_t address, size_t bytes) const;

 private:
  PeerProcess() = default;
  bool open(int64_t pid, int descriptor, uint64_t nonce, uint64_t nonce_address);

  char* base_ = nullptr;
  int64_t pid_ = 0;
  int pid_descriptor_ = -1; // readable once the process has ended; -1 for this process itself
  int64_t mapped_by_ = 0;   // the process that made this object
  bool can_read_ = false;
};

} // namespace weft
