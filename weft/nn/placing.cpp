#include "weft/nn/placing.h"

#include "weft/core/layout_algebra.h"
#include "weft/nn/replace_parameters.h"

namespace weft::nn {

void Placing::place(torch::nn::Module& owner, const std::string& name, const at::Tensor& tensor, const Layout& layout) {
  auto& [plain, distributed] = placed_[tensor.unsafeGetTensorImpl()];
  if (!distributed.defined()) {
    plain = tensor;
    distributed = distribute_tensor(tensor.detach(), mesh_, layout, options_);
  }
  replace_parameter(owner, name, distributed);
}

void Placing::replicate_what_is_plain(torch::nn::Module& owner) {
  for (const auto& tensors : {owner.named_parameters(/*recurse=*/false), owner.named_buffers(/*recurse=*/false)}) {
    for (const auto& item : tensors) {
      if (item.value().defined() && !is_dtensor(item.value())) {
        place(owner, item.key(), item.value(), replicated(mesh_));
      }
    }
  }
}

} // namespace weft::nn
