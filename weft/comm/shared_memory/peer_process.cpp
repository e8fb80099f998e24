#include "weft/comm/shared_memory/peer_process.h"

#include "weft/comm/shared_memory/shared_arena.h"

#include <fstream>
#include <map>
#include <mutex>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace weft {

namespace {

/// Equal in processes that see each other's ids and network: the boot's id, and the numbers of both namespaces. Processes
/// of two network namespaces count as two hosts, because a program that divides a machine so means them to.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  file >> identity;
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    char name[64] = {};
    if (identity.empty() || readlink(space, name, sizeof(name) - 1) <= 0) {
      return "";
    }
    identity += name;
  }
  return identity;
}

/// A copy of the arena's nonce outside of it, by which other processes try whether they may read this process's memory.
uint64_t own_nonce = 0;

int open_pid(int64_t pid) {
  return static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
}

struct Table {
  std::mutex mutex;
  int64_t pid = getpid(); // a child made by fork does not have its parent's mappings
  std::map<std::string, std::weak_ptr<PeerProcess>> processes = {};
};

Table& table() {
  static auto* const instance = new Table();
  return *instance;
}

} // namespace

std::string PeerProcess::own_address() {
  const auto* arena = SharedArena::own();
  const auto host = host_identity();
  if (arena == nullptr || host.empty()) {
    return "";
  }
  own_nonce = arena->nonce();
  std::ostringstream text;
  text << host << ' ' << getpid() << ' ' << arena->descriptor() << ' ' << own_nonce << ' '
       << reinterpret_cast<uint64_t>(&own_nonce);
  return text.str();
}

std::shared_ptr<PeerProcess> PeerProcess::find(const std::string& address) {
  std::istringstream words(address);
  std::string host;
  int64_t pid = 0;
  int descriptor = -1;
  uint64_t nonce = 0;
  uint64_t nonce_address = 0;
  if (!(words >> host >> pid >> descriptor >> nonce >> nonce_address) || host != host_identity()) {
    return nullptr;
  }
  auto& all = table();
  const std::lock_guard lock(all.mutex);
  if (all.pid != getpid()) {
    all.pid = getpid();
    all.processes.clear();
  }
  std::erase_if(all.processes, [](const auto& entry) { return entry.second.expired(); });
  auto& known = all.processes[address];
  auto process = known.lock();
  if (!process) {
    process.reset(new PeerProcess());
    if (!process->open(pid, descriptor, nonce, nonce_address)) {
      return nullptr;
    }
    known = process;
  }
  return process;
}

bool PeerProcess::open(int64_t pid, int descriptor, uint64_t nonce, uint64_t nonce_address) {
  pid_ = pid;
  mapped_by_ = getpid();
  if (pid != mapped_by_ && (pid_descriptor_ = open_pid(pid)) < 0) {
    return false;
  }
  const auto path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) {
    return false;
  }
  void* base = MAP_FAILED;
  // Of another file, the size may be smaller, and reading beyond it would end this process.
  if (lseek(file, 0, SEEK_END) == SharedArena::kMappedBytes) {
    base = mmap(nullptr, SharedArena::kMappedBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  close(file);
  if (base == MAP_FAILED) {
    return false;
  }
  base_ = static_cast<char*>(base);
  madvise(base_, SharedArena::kMappedBytes, MADV_DONTFORK);
  madvise(base_, SharedArena::kMappedBytes, MADV_DONTDUMP);
  if (*reinterpret_cast<const uint64_t*>(base_) != nonce) {
    return false;
  }
  uint64_t read_nonce = 0;
  can_read_ = read(&read_nonce, nonce_address, sizeof(read_nonce)) && read_nonce == nonce;
  return true;
}

PeerProcess::~PeerProcess() {
  if (mapped_by_ != getpid()) {
    return; // a child made by fork: something else may be at that address
  }
  if (base_ != nullptr) {
    munmap(base_, SharedArena::kMappedBytes);
  }
  if (pid_descriptor_ >= 0) {
    close(pid_descriptor_);
  }
}

bool PeerProcess::is_alive() const {
  if (pid_descriptor_ < 0) {
    return true;
  }
  pollfd ended{pid_descriptor_, POLLIN, 0};
  return poll(&ended, 1, 0) == 0;
}

bool PeerProcess::read(void* target, uint64_t address, size_t bytes) const {
  auto* to = static_cast<char*>(target);
  while (bytes > 0) {
    const iovec here{to, bytes};
    const iovec there{reinterpret_cast<void*>(address), bytes};
    const auto count = process_vm_readv(static_cast<pid_t>(pid_), &here, 1, &there, 1, 0);
    if (count <= 0) {
      return false;
    }
    to += count;
    address += static_cast<uint64_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return is_alive(); // otherwise its id may have been given to another process
}

} // namespace weft
