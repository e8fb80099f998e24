#pragma once

#include "weft/comm/communication_scope.h"
#include "weft/graph/capture/recorder.h"
#include "weft/redistribute/local_recorder.h"
#include "weft/tensor/impl/move_observer.h"

namespace weft::graph {

/// Tells a recorder of functions that are no operators, on the global level.
class Recorder::GlobalMoves final : public MoveObserver {
 public:
  explicit GlobalMoves(Recorder& recorder) : recorder_(recorder) {}

  at::Tensor observe(const at::Tensor& tensor, c10::function_ref<at::Tensor()> move) override {
    return recorder_.record_move(tensor, move);
  }
  bool is_watching() const override {
    return !recorder_.is_inside();
  }

 private:
  Recorder& recorder_;
};

/// The same on the local level.
class Recorder::LocalMoves final : public LocalRecorder {
 public:
  explicit LocalMoves(Recorder& recorder) : recorder_(recorder) {}

  at::Tensor redistribute(const Plan& plan, const at::Tensor& local, c10::function_ref<at::Tensor()> run) override {
    return recorder_.record_redistribution(plan, local, run);
  }
  bool has_seen(const at::Tensor& local) const override {
    return recorder_.tensors_.has_memory_of(local);
  }

 private:
  Recorder& recorder_;
  CommunicationScope only_seen_{false};
};

} // namespace weft::graph
