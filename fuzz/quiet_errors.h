#pragma once

#include <c10/util/Logging.h>

namespace weft::fuzz {

/// Errors without stack traces, which take longer than all the rest.
inline void quiet_errors() {
  static const bool once = [] {
    c10::SetStackTraceFetcher([] { return std::string(); });
    return true;
  }();
  static_cast<void>(once);
}

} // namespace weft::fuzz
