#pragma once

#include "weft/checkpoint/save_files.h"

#include <atomic>
#include <exception>
#include <thread>

namespace weft {

/// Saves while the program goes on: save_async() copies the tensors and returns, and a thread of its own writes the copies. What the
/// program does to the tensors meanwhile does not change what is written.
///
///   AsyncSaver saver(ranks);
///   saver.save(state, "run/step_100", {});   // returns after the copy; waits for the save before, and raises its error
///   ...
///   saver.wait();
///
/// The copies are kept for the next save: pinned memory where the tensors are on CUDA. `ranks` is of a mesh that nothing else uses,
/// since the thread communicates at any time.
class AsyncSaver {
 public:
  explicit AsyncSaver(RankTexts ranks) : ranks_(std::move(ranks)) {}
  /// Waits; an error that no caller has waited for becomes a warning.
  ~AsyncSaver();
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;

  void save(const LocalState& state, const std::string& folder, const SaveOptions& options);
  /// Returns when the last save is complete, or raises its error.
  void wait();
  bool is_saving() const {
    return is_saving_;
  }

 private:
  void snapshot(const LocalState& state);
  void join();

  RankTexts ranks_;
  LocalState copy_;
  std::thread thread_;
  std::atomic<bool> is_saving_ = false;
  std::exception_ptr error_;
};

} // namespace weft
