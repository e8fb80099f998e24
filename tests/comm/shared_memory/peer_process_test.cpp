#include "weft/comm/shared_memory/peer_process.h"

#include "weft/comm/shared_memory/shared_arena.h"

#include <gtest/gtest.h>

#include <c10/util/StringUtil.h>

#include <array>
#include <csignal>
#include <cstring>

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft {

namespace peer_process_test {

int64_t open_descriptors() {
  auto* const folder = opendir("/proc/self/fd");
  int64_t count = 0;
  while (readdir(folder) != nullptr) {
    ++count;
  }
  closedir(folder);
  return count;
}

/// A process with memory of its own, which says its address and waits to be killed.
struct Child {
  std::array<int, 2> pipe{};
  pid_t pid;
  std::string address;
  uint64_t private_address = 0; // of the text "private" in its memory
  int64_t offset = 0;           // of the text "shared" in its shared memory

  Child() {
    EXPECT_EQ(::pipe(pipe.data()), 0);
    pid = fork();
    if (pid == 0) {
      run();
    }
    std::array<char, 512> line{};
    EXPECT_GT(read(pipe[0], line.data(), line.size() - 1), 0);
    char text[256] = {};
    EXPECT_EQ(sscanf(line.data(), "%lu %ld %255[^\n]", &private_address, &offset, text), 3);
    address = text;
  }
  ~Child() {
    end();
    close(pipe[0]);
    close(pipe[1]);
  }
  [[noreturn]] void run() const {
    static char text[] = "private";
    const auto block = SharedArena::own()->take(100);
    std::strcpy(block->data(), "shared");
    dprintf(
        pipe[1], "%lu %ld %s\n", reinterpret_cast<uint64_t>(text), block->offset(), PeerProcess::own_address().c_str());
    while (true) {
      pause();
    }
  }
  void end() {
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
      pid = 0;
    }
  }
};

TEST(PeerProcess, ReadsTheSharedAndTheOtherMemoryOfAnotherProcess) {
  const Child child;
  const auto process = PeerProcess::find(child.address);
  ASSERT_NE(process, nullptr);
  EXPECT_STREQ(process->at(child.offset), "shared");
  ASSERT_TRUE(process->can_read());
  std::array<char, 8> text{};
  EXPECT_TRUE(process->read(text.data(), child.private_address, text.size()));
  EXPECT_STREQ(text.data(), "private");
  EXPECT_FALSE(process->read(text.data(), 8, text.size())) << "no such memory";
}

TEST(PeerProcess, AProcessIsMappedOnceAndLetGoOf) {
  const auto before = open_descriptors();
  const Child child;
  const auto with_child = open_descriptors();
  auto process = PeerProcess::find(child.address);
  EXPECT_EQ(PeerProcess::find(child.address), process);
  EXPECT_EQ(open_descriptors(), with_child + 1);
  process = nullptr;
  EXPECT_EQ(open_descriptors(), with_child);
  EXPECT_EQ(before + 2, with_child) << "the pipe";
}

TEST(PeerProcess, SharedMemoryOutlivesTheProcessWhichIsKnownToHaveEnded) {
  Child child;
  const auto process = PeerProcess::find(child.address);
  ASSERT_NE(process, nullptr);
  EXPECT_TRUE(process->is_alive());
  child.end();
  EXPECT_FALSE(process->is_alive());
  EXPECT_STREQ(process->at(child.offset), "shared");
  std::array<char, 8> text{};
  EXPECT_FALSE(process->read(text.data(), child.private_address, text.size()));
  Child other;
  other.end();
  EXPECT_EQ(PeerProcess::find(other.address), nullptr) << "it has ended";
}

TEST(PeerProcess, FindsItself) {
  const auto process = PeerProcess::find(PeerProcess::own_address());
  ASSERT_NE(process, nullptr);
  EXPECT_TRUE(process->is_alive());
  EXPECT_TRUE(process->can_read());
  const auto block = SharedArena::own()->take(100);
  std::strcpy(block->data(), "own");
  EXPECT_STREQ(process->at(block->offset()), "own");
}

TEST(PeerProcess, AnAddressOfAnotherHostIsNotFound) {
  const auto address = PeerProcess::own_address();
  EXPECT_EQ(PeerProcess::find("other" + address), nullptr);
  EXPECT_EQ(PeerProcess::find(""), nullptr);
  EXPECT_EQ(PeerProcess::find(address.substr(0, address.find(' '))), nullptr);
}

TEST(PeerProcess, AnAddressWhoseNumbersBelongToSomethingElseIsNotFound) {
  const auto address = PeerProcess::own_address();
  const auto host = address.substr(0, address.find(' '));
  EXPECT_EQ(PeerProcess::find(c10::str(host, " 1 0 1 1")), nullptr) << "a file that is no arena";
  EXPECT_EQ(PeerProcess::find(c10::str(host, " ", getpid(), " ", SharedArena::own()->descriptor(), " 1 1")), nullptr)
      << "another process's arena";
}

} // namespace peer_process_test

} // namespace weft
