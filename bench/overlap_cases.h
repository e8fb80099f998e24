#pragma once

#include "bench/serve.h"

#include "weft/core/shard_math.h"
#include "weft/overlap/fused_matmul.h"
#include "weft/overlap/measure/mesh_rates.h"
#include "weft/overlap/overlap_cost.h"
#include "weft/weft.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>

namespace weft::bench {

/// How a collective and its matmuls are run: one after the other, fused, or as the gate says.
struct Way {
  enum class Kind : uint8_t { Unfused, Fused, Auto };
  Kind kind;
  int64_t chunks = 0; // of a fused one; 0: as many as the gate says
};

/// "unfused", "fused", "fused/8", "auto"
inline Way way_of(const std::string& name) {
  if (name == "unfused" || name == "auto") {
    return {name == "auto" ? Way::Kind::Auto : Way::Kind::Unfused};
  }
  TORCH_CHECK_VALUE(name.starts_with("fused"), "[overlap] unknown way '", name, "'; see --help.");
  return {Way::Kind::Fused, name == "fused" ? 0 : std::stol(name.substr(std::strlen("fused/")))};
}

/// The two pairs of a collective and its matmuls, of matrices that are sharded by rows.
class Pairs {
 public:
  Pairs(std::shared_ptr<Group> group, Link link, Compute compute)
      : group_(std::move(group)), link_(link), compute_(compute) {}

  Group& group() const {
    return *group_;
  }

  /// How many chunks; none where it is not fused.
  std::optional<int64_t> chunks(Way way, const at::Tensor& shard, int64_t rows, at::TensorList others) const {
    int64_t columns = 0;
    for (const auto& other : others) {
      columns += other.size(1);
    }
    return chunks(way, OverlapKind::GatherMatmul, rows, shard.size(1), columns, static_cast<int64_t>(others.size()));
  }
  std::optional<int64_t> chunks(Way way, const at::Tensor& input, const at::Tensor& other) const {
    return chunks(way, OverlapKind::MatmulScatter, input.size(0), input.size(1), other.size(1), 1);
  }

  /// This rank's rows of so many.
  int64_t own_rows(int64_t rows) const {
    return chunk(rows, group_->size(), group_->rank()).length;
  }

  /// The rows of all ranks; there are so many.
  at::Tensor gathered(const at::Tensor& shard, int64_t rows) const {
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < group_->size(); ++i) {
      lengths.push_back(chunk(rows, group_->size(), i).length);
    }
    const auto global = at::empty({rows, shard.size(1)}, shard.options());
    group_->all_gather(shard, global, 0, lengths).wait();
    return global;
  }
  at::Tensor scattered(const at::Tensor& product) const {
    std::vector<at::Tensor> row_chunks;
    for (int64_t i = 0; i < group_->size(); ++i) {
      const auto range = chunk(product.size(0), group_->size(), i);
      row_chunks.push_back(product.narrow(0, range.begin, range.length));
    }
    const auto output = at::empty_like(row_chunks[group_->rank()]);
    group_->reduce_scatter(row_chunks, output, ReduceOp::Sum).wait();
    return output;
  }

  std::vector<at::Tensor> gather_matmul(Way way, const at::Tensor& shard, int64_t rows, at::TensorList others) const {
    if (const auto count = chunks(way, shard, rows, others)) {
      return all_gather_matmul(*group_, shard, others, {}, {.dim = 0, .size = rows, .chunks = *count}).outputs;
    }
    const auto global = gathered(shard, rows);
    std::vector<at::Tensor> outputs;
    for (const auto& other : others) {
      outputs.push_back(at::mm(global, other));
    }
    return outputs;
  }

  at::Tensor matmul_scatter(Way way, const at::Tensor& input, const at::Tensor& other) const {
    if (const auto count = chunks(way, input, other)) {
      return matmul_reduce_scatter(*group_, {input}, {other}, {}, {.dim = 0, .op = ReduceOp::Sum, .chunks = *count});
    }
    return scattered(at::mm(input, other));
  }

 private:
  std::optional<int64_t> chunks(
      Way way,
      OverlapKind kind,
      int64_t rows,
      int64_t inner,
      int64_t columns,
      int64_t matmuls) const {
    if (way.kind == Way::Kind::Unfused) {
      return std::nullopt;
    }
    if (way.chunks > 0) {
      return way.chunks;
    }
    const auto choice = choose_overlap(
        {.kind = kind,
         .dim = OverlapDim::Rows,
         .members = group_->size(),
         .rows = rows,
         .inner = inner,
         .columns = columns,
         .element_bytes = 4,
         .matmuls = matmuls},
        link_, compute_);
    return way.kind == Way::Kind::Fused || choice.fuse ? std::optional(choice.chunks) : std::nullopt;
  }

  std::shared_ptr<Group> group_;
  Link link_;
  Compute compute_;
};

} // namespace weft::bench
