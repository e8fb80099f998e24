#pragma once

#include "weft/checkpoint/rank_texts.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace weft {

/// Tells the other ranks again and again that this one still works, by a thread of its own. Ranks that are done wait for the one that
/// works longest, however long that takes, but no longer than the timeout for one that is gone. Nothing else may use the texts
/// meanwhile.
///
///   StillWorking working(ranks);
///   write_files();            // takes minutes on one rank
///   working.wait_for_all();   // returns when all ranks are here
class StillWorking {
 public:
  explicit StillWorking(const RankTexts& ranks);
  /// Waits for the thread: all ranks must have come to their ends.
  ~StillWorking();
  StillWorking(const StillWorking&) = delete;
  StillWorking& operator=(const StillWorking&) = delete;

  void wait_for_all();

 private:
  void talk();
  void end();

  const RankTexts& ranks_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool is_done_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

} // namespace weft
