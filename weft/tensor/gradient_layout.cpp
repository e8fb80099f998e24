#include "weft/tensor/gradient_layout.h"

#include "weft/comm/comm_log.h"
#include "weft/tensor/boundary.h"
#include "weft/tensor/redistribute.h"

namespace weft {

void keep_gradient_layout(const at::Tensor& leaf) {
  leaf.register_hook(
      [layout = default_gradient_layout(as_dtensor(leaf)->spec()->layout())](const at::Tensor& gradient) {
        const OperatorScope scope("gradient");
        const auto* impl = as_dtensor(gradient);
        return impl == nullptr || impl->spec()->layout() == layout ? gradient : redistribute(gradient, layout);
      });
}

} // namespace weft
