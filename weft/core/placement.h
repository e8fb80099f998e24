#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class TextCursor;

enum class ReduceOp : uint8_t { Sum, Avg, Max, Min, Product };

std::string_view to_string(ReduceOp op);
/// The inverse of to_string(); "prod" is a product as well.
ReduceOp parse_reduce_op(std::string_view text);

/// Whether reducing with `a` over one mesh dim and with `b` over another gives the same value in either order.
bool commute(ReduceOp a, ReduceOp b);

/// The distribution of a tensor over one mesh dim. An immutable value; parse() is the inverse of to_string().
///
///   R         every rank holds the same value
///   S(0)      tensor dim 0 is divided as torch.chunk does, one shard per rank
///   SS(0,4)   tensor dim 0 is divided into 4 blocks, then each block as by S(0); a rank holds a shard of every block
///   SS(0,4:1:1)   the same with blocks of different sizes, given relative to each other, as queries, keys and values have
///   S(0|3:0:5)   tensor dim 0 is divided into shards of these lengths, one per rank, in their order (a ragged shard)
///   P(sum)    every rank holds a term; the value is the sum of the terms (or their avg, max, min, product)
class Placement {
 public:
  Placement() = default; // R

  static Placement replicate() {
    return {};
  }
  static Placement shard(int64_t dim) {
    return strided_shard(dim, 1);
  }
  /// With a split factor of 1 this is a plain shard.
  static Placement strided_shard(int64_t dim, int64_t split_factor);
  /// A strided shard whose blocks have these sizes relative to each other: 4:1:1 and 8:2:2 are the same. With equal sizes this
  /// is strided_shard() of so many blocks.
  static Placement strided_shard(int64_t dim, c10::IntArrayRef block_sizes);
  /// Consecutive indices, `lengths[i]` of them on member i. Where the lengths are more than the dim has, shards end with it; where
  /// they are fewer, the last member holds the rest: so the shards of one unevenly sharded dim can have one placement.
  static Placement ragged_shard(int64_t dim, c10::IntArrayRef lengths);
  static Placement partial(ReduceOp op = ReduceOp::Sum) {
    return {Kind::Partial, 0, static_cast<int64_t>(op)};
  }
  static Placement parse(std::string_view text);
  static Placement parse(TextCursor& cursor);

  bool is_replicate() const {
    return kind_ == Kind::Replicate;
  }
  /// Plain, strided or ragged.
  bool is_shard() const {
    return kind_ == Kind::Shard;
  }
  bool is_shard(int64_t dim) const {
    return is_shard() && dim_ == dim;
  }
  /// Whether it is S: divided as torch.chunk does.
  bool is_plain_shard() const {
    return is_shard() && argument_ == 1;
  }
  bool is_partial() const {
    return kind_ == Kind::Partial;
  }

  /// The tensor dim of a shard.
  int64_t dim() const {
    return dim_;
  }
  /// Whether a shard consists of several blocks, of equal or of different sizes.
  bool is_strided() const {
    return is_shard() && argument_ != 1 && !is_ragged();
  }
  bool has_unequal_blocks() const {
    return is_shard() && argument_ < 0 && !is_ragged();
  }
  bool is_ragged() const {
    return is_shard() && argument_ < kRagged;
  }
  /// The number of blocks of a shard, 1 of a ragged one. Ask has_unequal_blocks() before computing with it.
  int64_t split_factor() const;
  /// The relative sizes of unequal blocks.
  c10::IntArrayRef block_sizes() const;
  /// The lengths of a ragged shard, one per member.
  c10::IntArrayRef lengths() const;
  /// The same shard of another tensor dim.
  Placement along(int64_t dim) const {
    return {Kind::Shard, dim, argument_};
  }
  /// A number for the blocks or lengths of a shard, the same for the same ones in this process.
  int32_t blocks_id() const {
    return is_shard() ? argument_ : 1;
  }
  ReduceOp reduce_op() const {
    return static_cast<ReduceOp>(argument_);
  }

  /// The same placement with a negative dim counted from the end; raises if a tensor of this ndim has no such dim.
  Placement normalized(int64_t tensor_ndim) const;

  std::string to_string() const;
  size_t hash() const;

  friend bool operator==(const Placement&, const Placement&) = default;

 private:
  enum class Kind : uint8_t { Replicate, Shard, Partial };

  Placement(Kind kind, int64_t dim, int64_t argument)
      : kind_(kind), dim_(static_cast<int16_t>(dim)), argument_(static_cast<int32_t>(argument)) {}

  // Eight bytes, because planning copies and compares layouts often.
  Kind kind_ = Kind::Replicate;
  int16_t dim_ = 0;
  // Ragged shards have kRagged minus the number of their list of lengths.
  static constexpr int32_t kRagged = -(1 << 30);
  // The number of equal blocks of a shard, or minus the number of a list of unequal ones (see placement.cpp), or below kRagged; the
  // reduce op of a partial.
  int32_t argument_ = 0;
};

inline Placement Replicate() {
  return Placement::replicate();
}
inline Placement Shard(int64_t dim) {
  return Placement::shard(dim);
}
inline Placement StridedShard(int64_t dim, int64_t split_factor) {
  return Placement::strided_shard(dim, split_factor);
}
inline Placement StridedShard(int64_t dim, c10::IntArrayRef block_sizes) {
  return Placement::strided_shard(dim, block_sizes);
}
inline Placement RaggedShard(int64_t dim, c10::IntArrayRef lengths) {
  return Placement::ragged_shard(dim, lengths);
}
inline Placement Partial(ReduceOp op = ReduceOp::Sum) {
  return Placement::partial(op);
}

std::ostream& operator<<(std::ostream& out, const Placement& placement);

} // namespace weft

template <>
struct std::hash<weft::Placement> {
  size_t operator()(const weft::Placement& placement) const {
    return placement.hash();
  }
};
