#include "weft/core/layout_algebra.h"
#include "weft/rules/builders.h"
#include "weft/tensor/boundary/halo.h"
#include "weft/tensor/boundary/implicit_move.h"
#include "weft/tensor/decompositions/decompositions.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ATen.h>

namespace weft {

namespace {

constexpr const char* kConvolution = "aten::convolution";
constexpr const char* kConvolutionBackward = "aten::convolution_backward";
constexpr int64_t kChannels = 1;
constexpr int64_t kFirstSpatialDim = 2;

/// The mesh dims that shard spatial dims of the input; none if more than samples and spatial dims is sharded, or in another way than
/// by torch.chunk.
MeshDims spatial_mesh_dims(const TensorSpec& input) {
  MeshDims result;
  for (int64_t m = 0; m < input.mesh().ndim(); ++m) {
    const auto& placement = input.layout()[m];
    if (!placement.is_replicate() && (!placement.is_plain_shard() || placement.is_shard(kChannels))) {
      return {};
    }
    if (placement.is_plain_shard() && placement.dim() >= kFirstSpatialDim && input.mesh().size(m) > 1) {
      result.push_back(m);
    }
  }
  return result;
}

int64_t entry(c10::IntArrayRef list, int64_t i) {
  return list.size() == 1 ? list[0] : list[i];
}

/// One per dim of the input; those of samples and channels do not slide.
std::vector<SlidingWindow> windows_of(
    c10::IntArrayRef weight_sizes,
    c10::IntArrayRef stride,
    c10::IntArrayRef padding,
    c10::IntArrayRef dilation) {
  std::vector<SlidingWindow> result(weight_sizes.size());
  for (auto d = kFirstSpatialDim; d < static_cast<int64_t>(weight_sizes.size()); ++d) {
    const auto i = d - kFirstSpatialDim;
    result[d] = {weight_sizes[d], entry(stride, i), entry(padding, i), entry(dilation, i)};
  }
  return result;
}

/// Whether each list has one number, or one per spatial dim.
bool have_entries(const OpCall& call, int64_t spatial_dims) {
  const std::array<std::string_view, 4> lists = {"stride", "padding", "dilation", "output_padding"};
  return std::all_of(lists.begin(), lists.end(), [&](std::string_view name) {
    const auto count = static_cast<int64_t>(call.integers(name).size());
    return count == 1 || count == spatial_dims;
  });
}

/// Whether the arguments fit each other, and the gradients may be terms. Other calls go by the rule, under which every rank raises:
/// here a rank with an empty shard would not, and no kernel would see the padding of sharded dims.
bool is_valid(
    const OpCall& call,
    const TensorSpec& input,
    const TensorSpec& weight,
    const std::vector<SlidingWindow>& windows) {
  const auto bias = call.operand_of("bias");
  const auto gradient = call.operand_of("grad_output");
  for (auto d = kFirstSpatialDim; d < input.dim(); ++d) {
    const auto outputs = windows[d].outputs_of(input.sizes()[d]);
    if (windows[d].stride < 1 || windows[d].padding < 0 || outputs < 1 ||
        (gradient && call.operand(*gradient).sizes[d] != outputs)) {
      return false;
    }
  }
  return input.numel() > 0 && weight.numel() > 0 && input.dtype() == weight.dtype() && has_terms(input.dtype()) &&
      weight.sizes()[1] * call.integer("groups") == input.sizes()[kChannels] &&
      weight.sizes()[0] % call.integer("groups") == 0 &&
      (!bias || call.operand(*bias).sizes == weight.sizes().slice(0, 1));
}

/// Whether the input is sharded along spatial dims, and ranks that take a halo receive less than they would if it were sharded along
/// another dim.
bool takes_halo(const OpCall& call, c10::ArrayRef<SpecPtr> operands) {
  const auto& input = operands[*call.operand_of("input")];
  const auto& weight = operands[*call.operand_of("weight")];
  const auto bias = call.operand_of("bias");
  const auto mesh_dims = spatial_mesh_dims(*input);
  if (mesh_dims.empty() || call.boolean("transposed") || input->dim() != weight->dim() ||
      !is_replicated(weight->layout()) || (bias && !is_replicated(operands[*bias]->layout())) ||
      !have_entries(call, input->dim() - kFirstSpatialDim)) {
    return false;
  }
  const auto windows =
      windows_of(weight->sizes(), call.integers("stride"), call.integers("padding"), call.integers("dilation"));
  const auto ranks = static_cast<double>(input->mesh().group_size(mesh_dims));
  return is_valid(call, *input, *weight, windows) &&
      Halo(input, mesh_dims, windows).received_share() < (ranks - 1) / ranks;
}

/// A plain tensor among distributed ones is replicated.
const at::Tensor& local_of(const at::Tensor& tensor) {
  return is_dtensor(tensor) ? as_dtensor(tensor)->local() : tensor;
}

/// A convolution of this rank's window of the input, in which sharded dims have their padding already.
struct LocalConvolution {
  LocalConvolution(
      const at::Tensor& given_input,
      const at::Tensor& given_weight,
      c10::IntArrayRef stride,
      c10::IntArrayRef given_padding,
      c10::IntArrayRef dilation)
      : input(as_dtensor(given_input)->spec()),
        weight(local_of(given_weight)),
        mesh_dims(spatial_mesh_dims(*input)),
        halo(input, mesh_dims, windows_of(given_weight.sizes(), stride, given_padding, dilation)) {
    for (auto d = kFirstSpatialDim; d < input->dim(); ++d) {
      padding.push_back(halo.slides_along(d) ? 0 : entry(given_padding, d - kFirstSpatialDim));
    }
  }

  SpecPtr input;
  at::Tensor weight;
  MeshDims mesh_dims;
  Halo halo;
  std::vector<int64_t> padding;
};

/// A tensor without gaps of a local tensor. Its strides are those of `like`, which has as many dims, as contiguous or channels last.
at::Tensor wrapped(
    const at::Tensor& local,
    const DeviceMesh& mesh,
    const Layout& layout,
    c10::IntArrayRef sizes,
    const at::Tensor& like) {
  const auto format = like.suggest_memory_format();
  const auto spec = [&](c10::IntArrayRef strides) {
    return TensorSpec::make(mesh, layout, sizes, strides, local.scalar_type());
  };
  return make_dtensor(
      local.contiguous(format),
      format == at::MemoryFormat::ChannelsLast         ? spec(c10::get_channels_last_strides_2d(sizes))
          : format == at::MemoryFormat::ChannelsLast3d ? spec(c10::get_channels_last_strides_3d(sizes))
                                                       : TensorSpec::make(mesh, layout, sizes, local.scalar_type()));
}

at::Tensor convolution(
    const at::Tensor& input,
    const at::Tensor& weight,
    const std::optional<at::Tensor>& bias,
    c10::IntArrayRef stride,
    c10::IntArrayRef padding,
    c10::IntArrayRef dilation,
    bool transposed,
    c10::IntArrayRef output_padding,
    int64_t groups) {
  const LocalConvolution call(input, weight, stride, padding, dilation);
  const auto& mesh = call.input->mesh();
  const auto& layout = call.input->layout();
  std::vector<int64_t> sizes = {input.size(0), weight.size(0)};
  const auto windows = windows_of(weight.sizes(), stride, padding, dilation);
  for (auto d = kFirstSpatialDim; d < input.dim(); ++d) {
    sizes.push_back(windows[d].outputs_of(input.size(d)));
  }
  const auto shape = local_shape_and_offset(sizes, mesh, layout).shape;
  // As kernels choose it: channels last if one of both is.
  const auto& like = weight.suggest_memory_format() == at::MemoryFormat::Contiguous ? input : weight;
  const auto& local = local_of(input);
  const auto window = mesh.is_member() ? call.halo.gathered(kConvolution, local) : local;
  if (c10::multiply_integers(shape) == 0) {
    return wrapped(at::empty(shape, local.options()), mesh, layout, sizes, like);
  }
  const auto local_bias = bias && bias->defined() ? std::optional(local_of(*bias)) : std::nullopt;
  const auto result = at::convolution(
      window, call.weight, local_bias, stride, call.padding, dilation, transposed, output_padding, groups);
  return wrapped(result, mesh, layout, sizes, like);
}

/// A rank's gradients of weight and bias are terms of a sum over the ranks that shard the input.
Layout layout_of_terms(const Layout& input) {
  auto result = input;
  for (int64_t m = 0; m < input.ndim(); ++m) {
    result = result.with(m, input[m].is_shard() ? Partial() : Replicate());
  }
  return result;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& given_gradient,
    const at::Tensor& input,
    const at::Tensor& weight,
    at::OptionalIntArrayRef bias_sizes,
    c10::IntArrayRef stride,
    c10::IntArrayRef padding,
    c10::IntArrayRef dilation,
    bool transposed,
    c10::IntArrayRef output_padding,
    int64_t groups,
    std::array<bool, 3> wanted) {
  const LocalConvolution call(input, weight, stride, padding, dilation);
  const auto& mesh = call.input->mesh();
  const auto& layout = call.input->layout();
  const auto everywhere =
      TensorSpec::make(mesh, replicated(mesh), given_gradient.sizes(), given_gradient.scalar_type());
  const auto distributed = is_dtensor(given_gradient) ? given_gradient : make_dtensor(given_gradient, everywhere);
  const auto gradient = local_of(move_implicitly(kConvolutionBackward, distributed, layout));
  const auto& local = local_of(input);
  const auto no_window = [&] { return at::zeros(call.halo.window_shape(), local.options()); };
  std::tuple<at::Tensor, at::Tensor, at::Tensor> locals;
  auto& [of_input, of_weight, of_bias] = locals;
  if (!mesh.is_member()) {
    locals = {local, call.weight, call.weight};
  } else {
    const auto window = wanted[1] ? call.halo.gathered(kConvolutionBackward, local) : no_window();
    if (gradient.numel() > 0) {
      locals = at::convolution_backward(
          gradient, window, call.weight, bias_sizes, stride, call.padding, dilation, transposed, output_padding, groups,
          wanted);
    } else {
      locals = {no_window(), at::zeros_like(call.weight), at::zeros({call.weight.size(0)}, call.weight.options())};
    }
    if (wanted[0]) {
      of_input = call.halo.scattered(kConvolutionBackward, of_input);
    }
  }
  const auto terms = layout_of_terms(layout);
  return {
      wanted[0] ? wrapped(of_input, mesh, layout, input.sizes(), input) : at::Tensor(),
      wanted[1] ? wrapped(of_weight, mesh, terms, weight.sizes(), weight) : at::Tensor(),
      wanted[2] ? make_dtensor(of_bias, TensorSpec::make(mesh, terms, {weight.size(0)}, weight.scalar_type()))
                : at::Tensor()};
}

} // namespace

void add_convolution_decompositions(Decompositions& all) {
  using c10::KernelFunction;
  const auto add = [&](const char* name, KernelFunction kernel) {
    all.emplace(name, Decomposition{&takes_halo, std::move(kernel), /*is_in_programs=*/false});
  };
  add(kConvolution, KernelFunction::makeFromUnboxedFunction(TORCH_FN(convolution)));
  add(kConvolutionBackward, KernelFunction::makeFromUnboxedFunction(TORCH_FN(convolution_backward)));
}

} // namespace weft
