#include "weft/comm/reduce_terms.h"

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

void reduce_terms(const at::Tensor& output, c10::ArrayRef<at::Tensor> terms, ReduceOp op) {
  if (terms.size() == 1) {
    output.copy_(terms[0]);
    return;
  }
  // The sum of two terms is rounded once anyway, but the sum of an average may be too large for 16 bits.
  const bool widen = rounds_at_every_step(output.scalar_type(), op) && (terms.size() > 2 || op == ReduceOp::Avg);
  const auto total = widen ? at::empty(output.sizes(), output.options().dtype(at::kFloat)) : output;
  // ATen adds in the dtype of the operands, whatever the dtype of the result: so one operand has to be 32 bits wide.
  combine(total, widen ? total.copy_(terms[0]) : terms[0], terms[1], op);
  for (const auto& term : terms.slice(2)) {
    combine(total, total, term, op);
  }
  if (op == ReduceOp::Avg) {
    total.div_(static_cast<int64_t>(terms.size()));
  }
  if (widen) {
    output.copy_(total);
  }
}

} // namespace weft
