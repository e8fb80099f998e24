#include "weft/files/folder_lock.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <optional>

#include <sys/wait.h>
#include <unistd.h>

namespace weft {

namespace folder_lock_test {

using testing::error_text;

std::string new_folder(const std::string& name) {
  const auto path = std::filesystem::path(::testing::TempDir()) / ("weft_folder_lock_" + name);
  std::filesystem::create_directories(path);
  return path.string();
}

TEST(FolderLock, IsForOneAtATime) {
  const auto folder = new_folder("one");
  {
    const FolderLock lock(folder, "save");
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { FolderLock(folder, "save"); }),
        "[save] " + folder +
            ": one program may save into a folder at a time, but another one does. Wait for it, or name another "
            "folder.");
    const FolderLock other(new_folder("other"), "save");
  }
  const FolderLock again(folder, "save");
}

TEST(FolderLock, AForkedProcessDoesNotKeepIt) {
  const auto folder = new_folder("forked");
  std::optional<FolderLock> lock(std::in_place, folder, "save");
  const auto child = ::fork();
  if (child == 0) {
    ::pause();
  }
  lock.reset();
  const FolderLock again(folder, "save");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(FolderLock, AProcessThatDiesGivesItBack) {
  const auto folder = new_folder("dies");
  const auto child = ::fork();
  if (child == 0) {
    const FolderLock lock(folder, "save");
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  const FolderLock lock(folder, "save");
}

TEST(FolderLock, NeedsNoFolder) {
  const FolderLock lock("/no/such/folder", "save"); // who writes there gets the error
}

} // namespace folder_lock_test

} // namespace weft
