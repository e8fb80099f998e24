#pragma once

#include "weft/checkpoint/read_plan.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// A local tensor to be filled from a stored one.
struct ReadTarget {
  std::string name = {}; // in errors
  const StoredTensor* stored = nullptr;
  BlockIndex wanted = {}; // the indices that `local` has
  at::Tensor local = {};
  /// The ranks that read this tensor, and this rank's number among them: they divide the parts that none reads completely
  /// between them to verify the checksums.
  int64_t sharer = 0;
  int64_t sharers = 1;
};

struct ReadSettings {
  const char* where = "load"; // begins the errors
  bool verify = true;
  int64_t threads = 0; // 0: as many as there are processors, up to four
};

struct ReadReport {
  uint64_t wanted_bytes = 0;   // in the files
  uint64_t read_bytes = 0;     // for the tensors
  uint64_t verified_bytes = 0; // read for checksums alone
};

/// Reads the boxes of plan_reads by several threads: straight into the local tensors where dtype and device are the same and
/// elements are consecutive in both, else through a few megabytes per thread. Small rows that are close to each other are read
/// together, at most twice the bytes that are wanted. Raises for files that are missing or truncated and, if asked to verify, for
/// parts that do not have their checksum, with the file and the tensor.
ReadReport read_tensors(const StoredTensors& stored, c10::ArrayRef<ReadTarget> targets, const ReadSettings& settings);

} // namespace weft
