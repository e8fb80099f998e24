#include "weft/comm/fake_world.h"
#include "weft/tensor/distribute.h"

#include <torch/library.h>

namespace {

/// What Python needs to make distributed tensors, on a mesh of one dim and eight ranks of which there is only the first:
///
///   torch.ops.load_library("libweft_bench_ops.so")
///   rows = torch.ops.weft_bench.from_local(torch.randn(16, 16), 0)
///   (rows + rows).relu()                       # an ordinary torch.Tensor
///   torch.ops.weft_bench.redistribute(rows, None)
const weft::DeviceMesh& mesh() {
  static const auto* mesh = new weft::DeviceMesh(weft::make_fake_world(8), c10::kCPU, {8});
  return *mesh;
}

weft::Layout cut_along(std::optional<int64_t> dim) {
  return dim ? weft::Layout{weft::Shard(*dim)} : weft::Layout{weft::Replicate()};
}

at::Tensor from_local(const at::Tensor& local, std::optional<int64_t> dim) {
  return weft::from_local(local, mesh(), cut_along(dim));
}

at::Tensor to_local(const at::Tensor& tensor) {
  return weft::to_local(tensor);
}

at::Tensor redistribute(const at::Tensor& tensor, std::optional<int64_t> dim) {
  return weft::redistribute(tensor, cut_along(dim));
}

} // namespace

TORCH_LIBRARY(weft_bench, library) {
  library.def("from_local(Tensor local, int? dim) -> Tensor", &from_local);
  library.def("to_local(Tensor tensor) -> Tensor", &to_local);
  library.def("redistribute(Tensor tensor, int? dim) -> Tensor", &redistribute);
}
