#include "weft/rules/dim_map.h"

#include <numeric>

namespace weft {

namespace {

/// Splits groups of dims with the same number of elements into common factors, the slowest first.
class Mapper {
 public:
  Mapper(Rule& rule, c10::IntArrayRef from, c10::IntArrayRef to) : rule_(rule), from_(from), to_(to) {
    result_.from.resize(from.size());
    result_.to.resize(to.size());
  }

  DimMap run() {
    while (i_ < from_.size() && j_ < to_.size()) {
      const auto begin_i = i_;
      const auto begin_j = j_;
      auto elements_from = from_[i_++];
      auto elements_to = to_[j_++];
      while (elements_from != elements_to) {
        const bool grow_from = elements_from < elements_to;
        if (grow_from && i_ < from_.size()) {
          elements_from *= from_[i_++];
        } else if (!grow_from && j_ < to_.size()) {
          elements_to *= to_[j_++];
        } else {
          return result_; // only dims of size 1 remain, or there are no elements
        }
      }
      factor(begin_i, begin_j);
    }
    return result_;
  }

 private:
  void factor(size_t i, size_t j) {
    auto left = from_[i];
    auto right = to_[j];
    std::vector<std::tuple<size_t, size_t, int64_t>> common;
    while (i < i_ && j < j_) {
      const auto size = std::gcd(left, right);
      if (size == 0) {
        return; // no elements
      }
      common.emplace_back(i, j, size);
      left /= size;
      right /= size;
      if (left != 1 && right != 1) {
        break; // what is left has no common factor, and neither have the faster dims of the group
      }
      if (left == 1 && ++i < i_) {
        left = from_[i];
      }
      if (right == 1 && ++j < j_) {
        right = to_[j];
      }
    }
    for (const auto& [from, to, size] : common) {
      // A dim of one element that stays one keeps its shard, which is empty on all ranks but one.
      if (size > 1 || (from_[from] == 1 && to_[to] == 1)) {
        const auto f = rule_.add_factor(size);
        result_.from[from].push_back(f);
        result_.to[to].push_back(f);
      }
    }
    if (i < i_ && j < j_) {
      add_rest(result_.from[i], left);
      add_rest(result_.to[j], right);
    }
  }

  /// The rest of a dim of which a slower factor may be sharded: shards of the dim are multiples of the rest.
  void add_rest(Rule::Dim& dim, int64_t size) {
    if (!dim.empty()) {
      rule_.unsharded.push_back(rule_.add_factor(size));
      dim.push_back(rule_.unsharded.back());
    }
  }

  Rule& rule_;
  c10::IntArrayRef from_;
  c10::IntArrayRef to_;
  size_t i_ = 0;
  size_t j_ = 0;
  DimMap result_;
};

} // namespace

DimMap map_dims(Rule& rule, c10::IntArrayRef from, c10::IntArrayRef to) {
  return Mapper(rule, from, to).run();
}

} // namespace weft
