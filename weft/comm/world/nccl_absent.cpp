#include "weft/comm/world/nccl.h"

#include <c10/util/Exception.h>

namespace weft {

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& /*store*/,
    int64_t /*rank*/,
    int64_t /*size*/,
    std::chrono::milliseconds /*timeout*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "[comm] communication between CUDA processes needs NCCL, but Weft was built without it. Build against a ",
      "torch with CUDA, or run the ranks as threads of one process.");
}

} // namespace weft
