#include "weft/core/placement.h"

#include "weft/core/text_cursor.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <array>
#include <limits>
#include <ostream>

namespace weft {

namespace {

constexpr std::array<std::string_view, 5> kReduceOpNames = {"sum", "avg", "max", "min", "product"};

} // namespace

std::string_view to_string(ReduceOp op) {
  return kReduceOpNames[static_cast<size_t>(op)];
}

ReduceOp parse_reduce_op(std::string_view text) {
  for (size_t i = 0; i < kReduceOpNames.size(); ++i) {
    if (kReduceOpNames[i] == text) {
      return static_cast<ReduceOp>(i);
    }
  }
  if (text == "prod") {
    return ReduceOp::Product;
  }
  TORCH_CHECK_VALUE(false, "[parse_reduce_op] expected one of sum avg max min product, but got '", text, "'.");
}

bool commute(ReduceOp a, ReduceOp b) {
  const auto is_additive = [](ReduceOp op) { return op == ReduceOp::Sum || op == ReduceOp::Avg; };
  return a == b || (is_additive(a) && is_additive(b));
}

Placement Placement::strided_shard(int64_t dim, int64_t split_factor) {
  TORCH_CHECK_VALUE(
      split_factor >= 1 && split_factor <= std::numeric_limits<int32_t>::max(),
      "[StridedShard] split_factor must be at least 1 and below 2^31, but got ", split_factor, " (dim ", dim,
      "). Use Shard(", dim, ") for an unstrided shard.");
  TORCH_CHECK_INDEX(
      dim == static_cast<int16_t>(dim), "[Shard] a tensor dim in [-32768, 32768) is required, but got ", dim,
      ". Shard a dim that the tensor has.");
  return {Kind::Shard, dim, split_factor};
}

Placement Placement::normalized(int64_t tensor_ndim) const {
  if (!is_shard()) {
    return *this;
  }
  TORCH_CHECK_INDEX(
      dim_ >= -tensor_ndim && dim_ < tensor_ndim, "[Placement] the dim of ", to_string(), " must be in [", -tensor_ndim,
      ", ", tensor_ndim, ") for a tensor of ", tensor_ndim, " dims, but got ", dim_, ". ",
      tensor_ndim == 0 ? "A 0-dim tensor can only be R or P." : "Shard a dim that the tensor has.");
  return {Kind::Shard, dim_ < 0 ? dim_ + tensor_ndim : dim_, argument_};
}

std::string Placement::to_string() const {
  if (is_replicate()) {
    return "R";
  }
  if (is_partial()) {
    return "P(" + std::string(weft::to_string(reduce_op())) + ")";
  }
  if (argument_ == 1) {
    return "S(" + std::to_string(dim_) + ")";
  }
  return "SS(" + std::to_string(dim_) + "," + std::to_string(argument_) + ")";
}

Placement Placement::parse(std::string_view text) {
  TextCursor cursor("Placement::parse", text);
  auto placement = parse(cursor);
  cursor.expect_end();
  return placement;
}

Placement Placement::parse(TextCursor& cursor) {
  if (cursor.accept("SS(")) {
    const auto dim = cursor.integer();
    cursor.expect(",");
    const auto split_factor = cursor.integer();
    cursor.expect(")");
    return strided_shard(dim, split_factor);
  }
  if (cursor.accept("S(")) {
    const auto dim = cursor.integer();
    cursor.expect(")");
    return shard(dim);
  }
  if (cursor.accept("P(")) {
    const auto op = parse_reduce_op(cursor.word());
    cursor.expect(")");
    return partial(op);
  }
  if (cursor.accept("R")) {
    return replicate();
  }
  cursor.fail("R, S(dim), SS(dim,split_factor) or P(sum|avg|max|min|product)");
}

size_t Placement::hash() const {
  return c10::get_hash(static_cast<int>(kind_), dim_, argument_);
}

std::ostream& operator<<(std::ostream& out, const Placement& placement) {
  return out << placement.to_string();
}

} // namespace weft
