// Any bytes as a safetensors file: an error or a header, nothing else.
#include "weft/files/safetensors_header.h"

#include "fuzz/quiet_errors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::quiet_errors();
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    weft::parse_safetensors_header(bytes, size, "fuzz", "file");
  } catch (const c10::Error&) {
  }
  return 0;
}
