#include "weft/files/folder_lock.h"

#include <c10/util/Exception.h>

#include <cerrno>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace weft {

FolderLock::FolderLock(const std::string& folder, const std::string& where)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (folder_ >= 0 && ::flock(folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(folder_);
    TORCH_CHECK_VALUE(
        false, "[", where, "] ", folder,
        ": one program may save into a folder at a time, but another one does. Wait for it, or name another folder.");
  }
}

FolderLock::~FolderLock() {
  if (folder_ >= 0) {
    // Closing is not enough where a process was forked meanwhile.
    ::flock(folder_, LOCK_UN);
    ::close(folder_);
  }
}

} // namespace weft
