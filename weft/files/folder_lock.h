#pragma once

#include <string>

namespace weft {

/// Keeps other programs, and other threads of this one, from taking the lock of the same folder while it exists. A process that dies gives
/// it back, once the processes that it forked meanwhile are gone too. On file systems without locks it does nothing, and on NFS other hosts
/// do not see it.
class FolderLock {
 public:
  /// Raises if another one has it; `where` begins the error.
  FolderLock(const std::string& folder, const std::string& where);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

} // namespace weft
