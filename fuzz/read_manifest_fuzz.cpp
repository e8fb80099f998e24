// Any text as the manifest of a checkpoint: an error, or tensors whose every element has a place in a file.
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/read_plan.h"

#include "fuzz/quiet_errors.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::quiet_errors();
  try {
    const auto manifest =
        weft::parse_manifest({reinterpret_cast<const char*>(data), size}, "folder", "checkpoint.json");
    for (const auto& [name, tensor] : manifest.stored.tensors) {
      for (const auto& box : weft::plan_reads(tensor, weft::full_block(tensor.sizes))) {
        for (size_t d = 0; d < box.sizes.size(); ++d) {
          if (box.target_offset[d] < 0 || box.sizes[d] > tensor.sizes[d] - box.target_offset[d]) {
            std::abort(); // an element outside of its tensor
          }
        }
      }
    }
  } catch (const c10::Error&) {
    return 0;
  }
  return 0;
}
