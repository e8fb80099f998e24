#pragma once

#include "weft/redistribute/plan.h"

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

namespace weft {

/// A recorder of the operators that this thread calls on local tensors, below Weft's kernels (graph::CapturedStep). A
/// redistribution is no operator, so that it is told of them. While it exists, kernels that communicate by themselves do
/// so by functional collectives (`_c10d_functional`), whose groups are named by mesh dims ("dp,tp"); gradients are not
/// reduced in buckets, and matmuls do not overlap collectives.
class LocalRecorder {
 public:
  static LocalRecorder* of_thread();
  LocalRecorder(const LocalRecorder&) = delete;
  LocalRecorder& operator=(const LocalRecorder&) = delete;

  /// Records a redistribution of `local`, which `run` executes, and returns the result.
  virtual at::Tensor redistribute(const Plan& plan, const at::Tensor& local, c10::function_ref<at::Tensor()> run) = 0;
  /// Whether the recorded operators made this local tensor, or use it. A result that was kept from before the recording
  /// must not be used again, because a replay would not compute it.
  virtual bool has_seen(const at::Tensor& local) const = 0;

 protected:
  LocalRecorder();
  ~LocalRecorder();

 private:
  LocalRecorder* outer_;
};

} // namespace weft
