#pragma once

#include "weft/checkpoint/read_items.h"

namespace weft {

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

/// Reads the items of plan_items by several threads: straight into the local tensors where dtype and device are the same and
/// elements are consecutive in both, else through at most four megabytes per thread. Rows that are close to each other are copied from
/// mapped pages or, where the file cannot be mapped, small ones are read together, at most twice the bytes that are wanted. Raises for
/// files that are missing or truncated and, if asked to verify, for chunks that do not have their checksum, with the file and the tensor.
ReadReport read_tensors(const StoredTensors& stored, c10::ArrayRef<ReadTarget> targets, const ReadSettings& settings);

} // namespace weft
