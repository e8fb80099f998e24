#pragma once

#include "weft/tensor/impl/call_cache.h"

#include <map>
#include <string>

namespace weft {

/// The counters of the calling thread's call cache.
CallCache::Counters call_cache_counters();

/// How often operators without a rule have run on replicated tensors in this process, by the operator's name.
std::map<std::string, size_t> fallback_counts();

} // namespace weft
