// Any text as the index of a Hugging Face folder: an error, or names of files inside of the folder.
#include "weft/checkpoint/huggingface.h"
#include "weft/checkpoint/manifest.h"

#include "fuzz/quiet_errors.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::quiet_errors();
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto& [file, tensors] : weft::parse_huggingface_index(text, "index")) {
      if (!weft::is_file_name(file) || tensors.empty()) {
        std::abort();
      }
    }
  } catch (const c10::Error&) {
    return 0;
  }
  return 0;
}
