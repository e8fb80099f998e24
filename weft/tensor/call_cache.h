#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/redistribute/execute.h"

#include <c10/util/hash.h>

#include <unordered_map>

namespace weft {

/// Everything about a call that can change how it is run, in words: the operator, the specs of its tensors by address,
/// the values of its static arguments.
using CallKey = c10::SmallVector<uint64_t, 24>;

/// How a call was run, and is run again when the same key comes.
struct CachedCall {
  std::vector<SpecPtr> operands;                          // keep the addresses in the key alive
  std::vector<std::shared_ptr<const CompiledPlan>> moves; // per operand; none where it stays as it is
  int64_t shape_argument = -1;                            // the argument that is replaced by the local shape
  std::vector<int64_t> local_shape;
  std::vector<SpecPtr> outputs;      // of every tensor that comes out
  std::vector<bool> make_contiguous; // per output: as its spec says, the local result is not
};

/// One per thread, bounded: when full it starts anew.
class CallCache {
 public:
  static CallCache& of_thread();

  const CachedCall* find(const CallKey& key);
  const CachedCall& add(const CallKey& key, CachedCall call);
  void clear();

  struct Counters {
    size_t size;
    size_t hits;
    size_t misses;
  };
  Counters counters() const {
    return {calls_.size(), hits_, misses_};
  }

 private:
  struct KeyHash {
    size_t operator()(const CallKey& key) const {
      size_t seed = key.size();
      for (const auto word : key) {
        seed = c10::hash_combine(seed, word);
      }
      return seed;
    }
  };

  static constexpr size_t kMaxCalls = 16384;

  std::unordered_map<CallKey, CachedCall, KeyHash> calls_;
  size_t hits_ = 0;
  size_t misses_ = 0;
};

} // namespace weft
