#include "weft/redistribute/local_recorder.h"

namespace weft {

namespace {

thread_local LocalRecorder* current_recorder = nullptr;

} // namespace

LocalRecorder* LocalRecorder::of_thread() {
  return current_recorder;
}

LocalRecorder::LocalRecorder() : outer_(current_recorder) {
  current_recorder = this;
}

LocalRecorder::~LocalRecorder() {
  current_recorder = outer_;
}

} // namespace weft
