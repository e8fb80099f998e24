#include "weft/comm/reduce_pieces.h"

#include <ATen/ops/add.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <c10/core/ScalarType.h>

namespace weft {

namespace {

void combine(at::Tensor output, const at::Tensor& a, const at::Tensor& b, ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Avg:
      at::add_out(output, a, b);
      return;
    case ReduceOp::Max:
      at::maximum_out(output, a, b);
      return;
    case ReduceOp::Min:
      at::minimum_out(output, a, b);
      return;
    case ReduceOp::Product:
      at::mul_out(output, a, b);
      return;
  }
}

bool rounds_at_every_step(at::ScalarType dtype, ReduceOp op) {
  return at::isReducedFloatingType(dtype) && op != ReduceOp::Max && op != ReduceOp::Min;
}

} // namespace

void reduce_pieces(const at::Tensor& output, c10::ArrayRef<at::Tensor> pieces, ReduceOp op) {
  if (pieces.size() == 1) {
    output.copy_(pieces[0]);
    return;
  }
  // Two of them are added with one rounding anyway, but an average's sum may be too large for 16 bits.
  const bool widen = rounds_at_every_step(output.scalar_type(), op) && (pieces.size() > 2 || op == ReduceOp::Avg);
  const auto total = widen ? at::empty(output.sizes(), output.options().dtype(at::kFloat)) : output;
  // ATen adds in the dtype of the operands, whatever that of the result: one of them has to be wide.
  combine(total, widen ? total.copy_(pieces[0]) : pieces[0], pieces[1], op);
  for (const auto& piece : pieces.slice(2)) {
    combine(total, total, piece, op);
  }
  if (op == ReduceOp::Avg) {
    total.div_(static_cast<int64_t>(pieces.size()));
  }
  if (widen) {
    output.copy_(total);
  }
}

} // namespace weft
