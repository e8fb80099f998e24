#include "weft/nn/reset_parameters.h"

#include <torch/nn/init.h>
#include <torch/nn/modules.h>

namespace weft::nn {

namespace {

namespace tnn = torch::nn;

void reset(auto& module) {
  module.reset_parameters();
}
void reset(tnn::MultiheadAttentionImpl& module) {
  module._reset_parameters();
}
void reset(tnn::PReLUImpl& module) {
  tnn::init::constant_(module.weight, module.options.init());
}

/// Resets the module as the first of the given types that it has.
template <class... Ms>
bool resets_one_of(tnn::Module& module) {
  const auto try_reset = [](auto* found) {
    if (found != nullptr) {
      reset(*found);
    }
    return found != nullptr;
  };
  return (try_reset(dynamic_cast<Ms*>(&module)) || ...);
}

} // namespace

bool reset_parameters(tnn::Module& module) {
  return resets_one_of<
      Resettable, tnn::LinearImpl, tnn::BilinearImpl, tnn::EmbeddingImpl, tnn::EmbeddingBagImpl, tnn::LayerNormImpl,
      tnn::GroupNormImpl, tnn::Conv1dImpl, tnn::Conv2dImpl, tnn::Conv3dImpl, tnn::ConvTranspose1dImpl,
      tnn::ConvTranspose2dImpl, tnn::ConvTranspose3dImpl, tnn::BatchNorm1dImpl, tnn::BatchNorm2dImpl,
      tnn::BatchNorm3dImpl, tnn::InstanceNorm1dImpl, tnn::InstanceNorm2dImpl, tnn::InstanceNorm3dImpl, tnn::RNNCellImpl,
      tnn::LSTMCellImpl, tnn::GRUCellImpl, tnn::RNNImpl, tnn::LSTMImpl, tnn::GRUImpl, tnn::PReLUImpl,
      tnn::MultiheadAttentionImpl, tnn::TransformerImpl>(module);
}

} // namespace weft::nn
