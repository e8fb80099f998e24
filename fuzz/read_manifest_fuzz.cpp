// Any text as the manifest of a checkpoint: an error, or tensors whose every element has a place in a file.
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/read_plan.h"

#include "fuzz/quiet_errors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::quiet_errors();
  try {
    const auto manifest =
        weft::parse_manifest({reinterpret_cast<const char*>(data), size}, "folder", "checkpoint.json");
    for (const auto& [name, tensor] : manifest.stored.tensors) {
      weft::plan_reads(tensor, weft::whole_block(tensor.sizes));
    }
  } catch (const c10::Error&) {
    return 0;
  }
  return 0;
}
