#include "weft/core/placement.h"

#include "weft/core/text_cursor.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <mutex>
#include <numeric>
#include <ostream>

namespace weft {

namespace {

constexpr std::array<std::string_view, 5> kReduceOpNames = {"sum", "avg", "max", "min", "product"};

/// The lists of unequal block sizes and of ragged lengths that placements have, which hold the number of a list: a placement
/// has eight bytes. Lists are never removed; a program has few.
class Lists {
 public:
  static Lists& of_process() {
    static auto* lists = new Lists(); // placements live until the process ends
    return *lists;
  }
  int32_t number_of(const std::vector<int64_t>& sizes) {
    const std::scoped_lock lock(mutex_);
    const auto found = std::find(lists_.begin(), lists_.end(), sizes);
    if (found != lists_.end()) {
      return static_cast<int32_t>(found - lists_.begin()) + 1;
    }
    lists_.push_back(sizes);
    return static_cast<int32_t>(lists_.size());
  }
  const std::vector<int64_t>& list(int32_t number) {
    const std::scoped_lock lock(mutex_);
    return lists_[number - 1];
  }

 private:
  std::mutex mutex_;
  std::deque<std::vector<int64_t>> lists_; // whose elements stay where they are
};

void check_dim(int64_t dim) {
  TORCH_CHECK_INDEX(
      dim == static_cast<int16_t>(dim), "[Shard] a tensor dim in [-32768, 32768) is required, but got ", dim,
      ". Shard a dim that the tensor has.");
}

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
  check_dim(dim);
  return {Kind::Shard, dim, split_factor};
}

Placement Placement::strided_shard(int64_t dim, c10::IntArrayRef block_sizes) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  TORCH_CHECK_VALUE(
      !block_sizes.empty() &&
          std::all_of(block_sizes.begin(), block_sizes.end(), [](int64_t size) { return size >= 1 && size <= kMost; }),
      "[StridedShard] sizes of blocks that are at least 1 and below 2^31 are required, but got ", block_sizes, " (dim ",
      dim, ").");
  check_dim(dim);
  int64_t common = 0;
  for (const auto size : block_sizes) {
    common = std::gcd(common, size);
  }
  if (std::all_of(block_sizes.begin(), block_sizes.end(), [&](int64_t size) { return size == common; })) {
    return strided_shard(dim, static_cast<int64_t>(block_sizes.size()));
  }
  auto sizes = block_sizes.vec();
  for (auto& size : sizes) {
    size /= common;
  }
  return {Kind::Shard, dim, -Lists::of_process().number_of(sizes)};
}

Placement Placement::ragged_shard(int64_t dim, c10::IntArrayRef lengths) {
  TORCH_CHECK_VALUE(
      !lengths.empty() && std::all_of(lengths.begin(), lengths.end(), [](int64_t length) { return length >= 0; }),
      "[RaggedShard] one length of at least 0 per member is required, but got ", lengths, " (dim ", dim, ").");
  __int128 total = 0;
  for (const auto length : lengths) {
    total += length;
  }
  TORCH_CHECK_VALUE(
      total <= std::numeric_limits<int64_t>::max(),
      "[RaggedShard] lengths that are below 2^63 together are required, but got ", lengths, " (dim ", dim, ").");
  check_dim(dim);
  return {Kind::Shard, dim, kRagged - Lists::of_process().number_of(lengths.vec())};
}

int64_t Placement::split_factor() const {
  return has_unequal_blocks() ? static_cast<int64_t>(block_sizes().size()) : is_shard() && !is_ragged() ? argument_ : 1;
}

c10::IntArrayRef Placement::block_sizes() const {
  TORCH_INTERNAL_ASSERT(has_unequal_blocks());
  return Lists::of_process().list(-argument_);
}

c10::IntArrayRef Placement::lengths() const {
  TORCH_INTERNAL_ASSERT(is_ragged());
  return Lists::of_process().list(kRagged - argument_);
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
  if (is_ragged()) {
    return "S(" + std::to_string(dim_) + "|" + c10::Join(":", lengths()) + ")";
  }
  const auto blocks = has_unequal_blocks() ? c10::Join(":", block_sizes()) : std::to_string(argument_);
  return "SS(" + std::to_string(dim_) + "," + blocks + ")";
}

Placement Placement::parse(std::string_view text) {
  TextCursor cursor("Placement::parse", text);
  auto placement = parse(cursor);
  cursor.expect_end();
  return placement;
}

Placement Placement::parse(TextCursor& cursor) {
  const auto integers_and_end = [&] {
    std::vector<int64_t> values = {cursor.integer()};
    while (cursor.accept(":")) {
      values.push_back(cursor.integer());
    }
    cursor.expect(")");
    return values;
  };
  if (cursor.accept("SS(")) {
    const auto dim = cursor.integer();
    cursor.expect(",");
    const auto blocks = integers_and_end();
    return blocks.size() == 1 ? strided_shard(dim, blocks[0]) : strided_shard(dim, blocks);
  }
  if (cursor.accept("S(")) {
    const auto dim = cursor.integer();
    if (cursor.accept("|")) {
      return ragged_shard(dim, integers_and_end());
    }
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
  cursor.fail("R, S(dim), SS(dim,split_factor), S(dim|lengths) or P(sum|avg|max|min|product)");
}

size_t Placement::hash() const {
  // Not by the number of a list, which other processes may have for another list.
  if (has_unequal_blocks()) {
    return c10::get_hash(dim_, block_sizes().vec());
  }
  if (is_ragged()) {
    return c10::get_hash(dim_, kRagged, lengths().vec());
  }
  return c10::get_hash(static_cast<int>(kind_), dim_, argument_);
}

std::ostream& operator<<(std::ostream& out, const Placement& placement) {
  return out << placement.to_string();
}

} // namespace weft
