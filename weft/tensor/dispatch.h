#pragma once

#include "weft/tensor/call_cache.h"

#include <cstddef>

namespace weft {

/// Makes every ATen operator take distributed tensors. Done when the first one is made; safe to call again.
void install_dispatch();

/// Of the calling thread's cached calls.
CallCache::Counters call_cache_counters();

} // namespace weft
