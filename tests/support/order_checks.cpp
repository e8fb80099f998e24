#include "tests/support/collective_checks.h"

#include "tests/support/sample_tensors.h"
#include "weft/comm/collectives.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/communicator.h"
#include "weft/comm/reduce_terms.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

namespace weft::testing {

namespace {

std::vector<int64_t> all_mesh_dims(const DeviceMesh& mesh) {
  std::vector<int64_t> dims;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    dims.push_back(m);
  }
  return dims;
}

at::Tensor random_of(int64_t rank, int64_t length, at::ScalarType dtype) {
  const auto generator = at::detail::createCPUGenerator(/*seed=*/100 + rank);
  return at::randn({length}, generator, at::TensorOptions(at::kDouble)).to(dtype);
}

at::Tensor bytes_of(const at::Tensor& tensor) {
  return tensor.contiguous().view(at::kByte);
}

void check_bits(const DeviceMesh& mesh, int64_t length, at::ScalarType dtype, ReduceOp op) {
  const auto dims = all_mesh_dims(mesh);
  std::vector<at::Tensor> inputs;
  for (const auto rank : mesh.ranks()) {
    inputs.push_back(random_of(rank, length, dtype));
  }
  const auto in_order = at::empty_like(inputs[0]);
  reduce_terms(in_order, inputs, op);
  const auto mine = all_reduce(random_of(mesh.world()->rank(), length, dtype), mesh, dims, op).wait();
  const auto everybodys = all_gather(bytes_of(mine).unsqueeze(0), mesh, dims, 0).wait();
  const auto expected = bytes_of(in_order).unsqueeze(0).expand_as(everybodys);
  check_same(everybodys, expected, c10::str("bits of all_reduce(", to_string(op), ") of ", length, " ", dtype));
}

/// An operation that was started, and the value that it must give.
struct Started {
  AsyncTensor value;
  at::Tensor expected;
  std::string what;
};

/// Something of every kind on one group; the large reductions take two stages.
void start_some(const DeviceMesh& mesh, c10::IntArrayRef dims, int64_t round, std::vector<Started>& started) {
  const auto ranks = mesh.ranks_along(dims);
  const auto size = static_cast<int64_t>(ranks.size());
  const auto me = std::find(ranks.begin(), ranks.end(), mesh.world()->rank()) - ranks.begin();
  const auto inputs = [&](c10::IntArrayRef sizes) {
    std::vector<at::Tensor> all;
    for (const auto rank : ranks) {
      all.push_back(sample(rank + round, sizes));
    }
    return all;
  };
  const auto large = inputs({300'007});
  const auto small = inputs({2 * size, 3});
  const auto sum = reduced(small, ReduceOp::Sum);
  const auto text = " over " + mesh.dims_text(dims);
  const auto add = [&](const char* what, AsyncTensor value, at::Tensor expected) {
    started.push_back({std::move(value), std::move(expected), what + text});
  };
  add("large all_reduce", all_reduce(large[me], mesh, dims, ReduceOp::Sum), reduced(large, ReduceOp::Sum));
  add("all_gather", all_gather(small[me], mesh, dims, 0), at::cat(small, 0));
  add("small all_reduce", all_reduce(small[me], mesh, dims, ReduceOp::Sum), sum);
  add("second large all_reduce", all_reduce(large[me], mesh, dims, ReduceOp::Max), reduced(large, ReduceOp::Max));
  add("reduce_scatter", reduce_scatter(small[me], mesh, dims, 0, ReduceOp::Sum), sum.narrow(0, 2 * me, 2));
  add("broadcast", broadcast(small[me], mesh, dims, size - 1), small[size - 1]);
}

} // namespace

void check_all_reduce_bits(const DeviceMesh& mesh) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    for (const auto op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Product}) {
      for (const int64_t length : {1, 17, 1000}) {
        check_bits(mesh, length, dtype, op);
      }
    }
    check_bits(mesh, 300'007, dtype, ReduceOp::Sum);
  }
}

void check_wait_orders(const DeviceMesh& mesh) {
  const auto rank = mesh.world()->rank();
  for (int64_t round = 0; round < 4; ++round) {
    std::vector<Started> started;
    for (int64_t m = 0; m < mesh.ndim(); ++m) {
      start_some(mesh, m, round, started);
    }
    start_some(mesh, all_mesh_dims(mesh), round, started);
    const auto count = static_cast<int64_t>(started.size());
    // Another order on every rank: rotated, and backwards on every other one. Some are let go of before their turn.
    for (int64_t i = 0; i < count; ++i) {
      const auto forward = (i + (rank + 1) * (round + 2)) % count;
      auto& one = started[(rank + round) % 2 == 0 ? forward : count - 1 - forward];
      if ((i + round) % 5 == 4) {
        one.value = AsyncTensor();
      } else {
        check_same(one.value.wait(), one.expected, one.what);
      }
    }
  }
}

void check_comm_log(const DeviceMesh& mesh) {
  const auto dims = all_mesh_dims(mesh);
  const auto others = mesh.size() - 1;
  CommLog outer(mesh);
  barrier(mesh, dims);
  outer.clear();
  {
    const OperatorScope scope("aten::linear");
    all_gather(at::ones({2, 3}), mesh, dims, 0).wait();
    all_gather(at::ones({2, 3}), mesh, dims, 1).wait();
    const CommLog inner(mesh);
    all_reduce(at::ones({4}, at::kDouble), mesh, dims, ReduceOp::Sum).wait();
    TORCH_CHECK(inner.calls() == (others > 0 ? 1 : 0), "the inner log counts ", inner.calls(), " calls");
    TORCH_CHECK(inner.bytes() == others * 32, "the inner log counts ", inner.bytes(), " bytes");
  }
  all_gather(at::ones({1}, at::kByte), mesh, dims, 0).wait();
  const auto label = mesh.dims_text(dims);
  const auto expected = others == 0
      ? std::string()
      : c10::str(
            "all_gather ", label, " - 1 calls ", others, " bytes\n", "all_gather ", label, " aten::linear 2 calls ",
            2 * others * 24, " bytes\n", "all_reduce ", label, " aten::linear 1 calls ", others * 32, " bytes\n");
  TORCH_CHECK(outer.to_string() == expected, "expected\n", expected, "but the log is\n", outer.to_string());
}

void check_lazy_groups(const DeviceMesh& mesh) {
  auto& communicator = Communicator::of(mesh);
  const auto before = communicator.group_count();
  const DeviceMesh fresh(mesh.world(), mesh.device_type(), mesh.shape(), mesh.ranks(), [&] {
    std::vector<std::string> names;
    for (const auto& name : mesh.names()) {
      names.push_back("fresh_" + name);
    }
    return names;
  }());
  TORCH_CHECK(communicator.group_count() == before, "a mesh alone has made a group");
  const auto last = fresh.ndim() - 1;
  const auto group = communicator.group(fresh, last);
  barrier(fresh, last);
  TORCH_CHECK(communicator.group(fresh, last) == group, "the same dim has given another group");
  TORCH_CHECK(
      communicator.group_count() == before + 1, "one dim was used, but ", communicator.group_count() - before,
      " groups were made");
}

void check_all(const DeviceMesh& mesh) {
  check_lazy_groups(mesh);
  check_collective_values(mesh);
  check_all_reduce_bits(mesh);
  check_wait_orders(mesh);
  check_comm_log(mesh);
}

} // namespace weft::testing
