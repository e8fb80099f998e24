#include "tests/support/collective_checks.h"

#include "tests/support/sample_tensors.h"
#include "weft/comm/collectives.h"
#include "weft/comm/communicator.h"
#include "weft/core/shard_math.h"

#include <ATen/ATen.h>

namespace weft::testing {

namespace {

constexpr std::array kDtypes = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,
                                at::kLong,  at::kByte,   at::kBool,     at::kComplexFloat};
constexpr std::array kOps = {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product};

bool can_reduce(at::ScalarType dtype, ReduceOp op) {
  if (op == ReduceOp::Avg) {
    return at::isFloatingType(dtype) || at::isComplexType(dtype);
  }
  return !at::isComplexType(dtype) || op == ReduceOp::Sum || op == ReduceOp::Product;
}

/// Each dim by itself, and all as one.
std::vector<std::vector<int64_t>> sets_of_dims(const DeviceMesh& mesh) {
  std::vector<std::vector<int64_t>> sets;
  std::vector<int64_t> all;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    sets.push_back({m});
    all.push_back(m);
  }
  if (mesh.ndim() > 1) {
    sets.push_back(all);
  }
  return sets;
}

/// One group of the mesh as a check sees it: its members, and the input of each.
struct Members {
  Members(const DeviceMesh& m, std::vector<int64_t> d) : mesh(m), dims(std::move(d)), ranks(mesh.ranks_along(dims)) {
    me = std::find(ranks.begin(), ranks.end(), mesh.world()->rank()) - ranks.begin();
  }

  int64_t size() const {
    return static_cast<int64_t>(ranks.size());
  }
  int64_t next(int64_t steps) const {
    return (me + steps + size()) % size();
  }
  std::vector<at::Tensor> samples(c10::IntArrayRef sizes, at::ScalarType dtype) const {
    std::vector<at::Tensor> all;
    for (const auto rank : ranks) {
      all.push_back(sample(rank, sizes, dtype));
    }
    return all;
  }
  /// Samples whose sizes along `dim` are those of the shards of `total`.
  std::vector<at::Tensor> uneven_samples(std::vector<int64_t> sizes, int64_t dim, int64_t total, at::ScalarType dtype)
      const {
    std::vector<at::Tensor> all;
    for (int64_t i = 0; i < size(); ++i) {
      sizes[dim] = chunk(total, size(), i).length;
      all.push_back(sample(ranks[i], sizes, dtype));
    }
    return all;
  }
  at::Tensor chunk_of(const at::Tensor& global, int64_t dim, int64_t member) const {
    const auto run = chunk(global.size(dim), size(), member);
    return global.narrow(dim, run.begin, run.length);
  }
  std::string what(const std::string& collective, at::ScalarType dtype) const {
    return c10::str(collective, " of ", dtype, " over ", mesh.dims_text(dims), " of ", mesh);
  }

  const DeviceMesh& mesh;
  std::vector<int64_t> dims;
  std::vector<int64_t> ranks;
  int64_t me;
};

std::vector<int64_t> sizes_along(c10::ArrayRef<at::Tensor> tensors, int64_t dim) {
  std::vector<int64_t> sizes;
  for (const auto& tensor : tensors) {
    sizes.push_back(tensor.size(dim));
  }
  return sizes;
}

void check_gathers(const Members& g, at::ScalarType dtype) {
  for (const int64_t dim : {0, 1, -1}) {
    const auto even = g.samples({2, 3}, dtype);
    check_same(
        all_gather(even[g.me], g.mesh, g.dims, dim).wait(), at::cat(even, dim), g.what("even all_gather", dtype));
    for (const int64_t total : {0, 1, 5, 7}) {
      const auto uneven = g.uneven_samples({2, 3}, dim < 0 ? 1 : dim, total, dtype);
      const auto each = sizes_along(uneven, dim);
      const auto global = all_gather(with_gaps(uneven[g.me]), g.mesh, g.dims, dim, each);
      check_same(global.wait(), at::cat(uneven, dim), g.what("uneven all_gather", dtype));
    }
  }
}

void check_all_to_alls(const Members& g, at::ScalarType dtype) {
  for (const auto& [split_dim, concat_dim] : {std::pair{0, 1}, {1, 0}, {-1, 0}}) {
    for (const int64_t total : {0, 1, 5, 8}) {
      const auto inputs = g.uneven_samples({5, 5}, concat_dim, total, dtype);
      std::vector<at::Tensor> arriving;
      for (const auto& input : inputs) {
        arriving.push_back(g.chunk_of(input, split_dim, g.me));
      }
      const auto each = sizes_along(inputs, concat_dim);
      for (const auto& input : {inputs[g.me], with_gaps(inputs[g.me])}) {
        check_same(
            all_to_all(input, g.mesh, g.dims, split_dim, concat_dim, each).wait(), at::cat(arriving, concat_dim),
            g.what("all_to_all", dtype));
      }
    }
  }
}

/// Chunks of more than 4 MB that are not contiguous, and that differ in size.
void check_large_all_to_all(const Members& g) {
  if (g.size() > 3) {
    return; // the inputs of all members would be large
  }
  const auto inputs = g.uneven_samples({0, 801 * g.size() - 1}, 0, 1500 * g.size() - 1, at::kFloat);
  std::vector<at::Tensor> arriving;
  for (const auto& input : inputs) {
    arriving.push_back(g.chunk_of(input, 1, g.me));
  }
  check_same(
      all_to_all(inputs[g.me], g.mesh, g.dims, 1, 0, sizes_along(inputs, 0)).wait(), at::cat(arriving, 0),
      g.what("large all_to_all", at::kFloat));
}

void check_reductions(const Members& g, at::ScalarType dtype) {
  for (const auto op : kOps) {
    if (!can_reduce(dtype, op)) {
      continue;
    }
    for (const int64_t length : {0, 1, 5, 8}) {
      const auto inputs = g.samples({length, 3}, dtype);
      const auto expected = reduced(inputs, op);
      for (const auto& input : {inputs[g.me], with_gaps(inputs[g.me])}) {
        check_same(all_reduce(input, g.mesh, g.dims, op).wait(), expected, g.what("all_reduce", dtype));
        for (const int64_t dim : {0, -1}) {
          check_same(
              reduce_scatter(input, g.mesh, g.dims, dim, op).wait(), g.chunk_of(expected, dim, g.me),
              g.what("reduce_scatter", dtype));
        }
      }
    }
  }
}

/// Sizes at which an all_reduce takes two stages.
void check_large_all_reduce(const Members& g) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto inputs = g.samples({1201, 503}, dtype);
    check_same(
        all_reduce(with_gaps(inputs[g.me]), g.mesh, g.dims, ReduceOp::Sum).wait(), reduced(inputs, ReduceOp::Sum),
        g.what("large all_reduce", dtype));
  }
}

void check_rooted(const Members& g, at::ScalarType dtype) {
  for (int64_t root = 0; root < g.size(); ++root) {
    for (const int64_t length : {0, 1, 5}) {
      const auto inputs = g.samples({length, 3}, dtype);
      for (const auto& input : {inputs[g.me], with_gaps(inputs[g.me])}) {
        check_same(broadcast(input, g.mesh, g.dims, root).wait(), inputs[root], g.what("broadcast", dtype));
        check_same(
            scatter(input, g.mesh, g.dims, 0, root).wait(), g.chunk_of(inputs[root], 0, g.me),
            g.what("scatter", dtype));
      }
    }
  }
}

/// A ring: every member sends to the right, first all sends and then all receives, several messages to one member.
void check_messages(const Members& g, at::ScalarType dtype) {
  if (g.size() == 1) {
    return;
  }
  for (const int64_t length : {0, 1, 5}) {
    const auto inputs = g.samples({length, 3}, dtype);
    const auto& from_left = inputs[g.next(-1)];
    auto first = send(with_gaps(inputs[g.me]), g.mesh, g.dims, g.next(1));
    auto second = send(inputs[g.me].clone(), g.mesh, g.dims, g.next(1));
    auto got_first = recv(inputs[g.me], g.mesh, g.dims, g.next(-1));
    auto got_second = recv(inputs[g.me], g.mesh, g.dims, g.next(-1));
    second.wait();
    first.wait();
    check_same(got_second.wait(), from_left, g.what("second recv", dtype));
    check_same(got_first.wait(), from_left, g.what("first recv", dtype));
  }
}

} // namespace

void check_collective_values(const DeviceMesh& mesh) {
  for (const auto& dims : sets_of_dims(mesh)) {
    const Members g(mesh, dims);
    for (const auto dtype : kDtypes) {
      check_gathers(g, dtype);
      check_all_to_alls(g, dtype);
      check_reductions(g, dtype);
      check_rooted(g, dtype);
      check_messages(g, dtype);
    }
    check_large_all_reduce(g);
    check_large_all_to_all(g);
    barrier(mesh, dims);
  }
}

} // namespace weft::testing
