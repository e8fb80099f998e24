// Any bytes as an exported program's file: an error or a program, nothing else.
#include "weft/graph/pt2/read_pt2.h"

#include "fuzz/quiet_errors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::quiet_errors();
  try {
    weft::graph::read_pt2_bytes(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const c10::Error&) {
    return 0;
  }
  return 0;
}
