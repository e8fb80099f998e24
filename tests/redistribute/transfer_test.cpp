#include "weft/redistribute/transfer.h"

#include "tests/support/layout_cases.h"

#include <gtest/gtest.h>

namespace weft {

namespace transfer_test {
using namespace weft::testing;

/// The positions that a box describes on one side, element by element along every dim.
std::vector<at::Tensor> positions(const Box& box, int64_t Intersection::*begin) {
  std::vector<at::Tensor> result;
  for (const auto& ranges : box.dims) {
    std::vector<at::Tensor> indices;
    for (const auto& range : ranges) {
      indices.push_back(at::arange(range.*begin, range.*begin + range.length, at::kLong));
    }
    result.push_back(indices.empty() ? at::empty({0}, at::kLong) : at::cat(indices));
  }
  return result;
}

bool carries_nothing(const Box& box, int64_t tensor_ndim) {
  return static_cast<int64_t>(box.dims.size()) != tensor_ndim || box.is_empty();
}

at::Tensor take(at::Tensor tensor, const std::vector<at::Tensor>& index) {
  for (size_t d = 0; d < index.size(); ++d) {
    tensor = tensor.index_select(static_cast<int64_t>(d), index[d]);
  }
  return tensor;
}

/// Simulates a step on all ranks, without any communication layer, and counts how often each element arrives.
class Simulation {
 public:
  Simulation(const Step& step, at::Tensor global, std::vector<int64_t> mesh_shape)
      : step_(step), global_(std::move(global)), mesh_shape_(std::move(mesh_shape)) {}

  void expect_every_rank_gets_its_shard_once() const {
    const auto ranks = std::accumulate(mesh_shape_.begin(), mesh_shape_.end(), int64_t{1}, std::multiplies<>());
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto coordinate = coordinate_at(rank, mesh_shape_);
      const auto expected = local_by_definition(global_, step_.after, mesh_shape_, coordinate);
      const auto own = transfer(step_, global_.sizes(), mesh_shape_, coordinate);
      ASSERT_EQ(c10::IntArrayRef(own.shape_after), expected.sizes());
      const auto result = at::full_like(expected, -1);
      const auto arrivals = at::zeros_like(expected);
      for (size_t member = 0; member < own.recvs.size(); ++member) {
        receive(own, member, coordinate, result, arrivals);
      }
      EXPECT_TRUE(result.equal(expected)) << step_.before << " -> " << step_.after << " on rank " << rank;
      EXPECT_TRUE(arrivals.eq(1).all().item<bool>()) << step_.before << " -> " << step_.after << " on rank " << rank;
    }
  }

 private:
  std::vector<int64_t> member_coordinate(std::vector<int64_t> coordinate, size_t member) const {
    std::vector<int64_t> shape;
    for (const auto m : step_.mesh_dims) {
      shape.push_back(mesh_shape_[m]);
    }
    const auto in_group = coordinate_at(static_cast<int64_t>(member), shape);
    for (size_t i = 0; i < shape.size(); ++i) {
      coordinate[step_.mesh_dims[i]] = in_group[i];
    }
    return coordinate;
  }

  size_t member_number(const std::vector<int64_t>& coordinate) const {
    size_t number = 0;
    for (const auto m : step_.mesh_dims) {
      number = number * mesh_shape_[m] + coordinate[m];
    }
    return number;
  }

  void receive(
      const Transfer& own,
      size_t member,
      const std::vector<int64_t>& coordinate,
      const at::Tensor& result,
      const at::Tensor& arrivals) const {
    const auto& box = own.recvs[member];
    const auto sender = member_coordinate(coordinate, member);
    const auto theirs = transfer(step_, global_.sizes(), mesh_shape_, sender);
    const auto& sent = theirs.sends[member_number(coordinate)];
    ASSERT_EQ(carries_nothing(box, global_.dim()), carries_nothing(sent, global_.dim()));
    if (carries_nothing(box, global_.dim())) {
      return;
    }
    const auto held = local_by_definition(global_, step_.before, mesh_shape_, sender);
    const auto message = take(held, positions(sent, &Intersection::held_begin));
    std::vector<at::Tensor> grid = at::meshgrid(positions(box, &Intersection::wanted_begin), "ij");
    c10::List<std::optional<at::Tensor>> index;
    for (const auto& axis : grid) {
      index.push_back(axis);
    }
    result.index_put_(index, message);
    arrivals.index_put_(index, at::ones_like(message), /*accumulate=*/true);
  }

  Step step_;
  at::Tensor global_;
  std::vector<int64_t> mesh_shape_;
};

TEST(Transfer, EveryStepDeliversEveryElementExactlyOnce) {
  const auto global = at::arange(15, at::kFloat).view({5, 3});
  for (const std::vector<int64_t>& mesh_shape : std::vector<std::vector<int64_t>>{{3}, {4}, {2, 2}, {2, 3}}) {
    const auto ndim = static_cast<int64_t>(mesh_shape.size());
    const auto layouts = all_layouts(ndim, 2, {Replicate(), Shard(0), Shard(1), StridedShard(0, 2)});
    for (const auto& before : layouts) {
      for (const auto& after : layouts) {
        const auto step = redistribute_step(before, after, mesh_shape, 2);
        if (communicates(step.kind)) {
          Simulation(step, global, mesh_shape).expect_every_rank_gets_its_shard_once();
        }
      }
    }
  }
}

TEST(Transfer, ReplicasSendEquallyMuch) {
  // {S(0), R} -> {R, S(0)} on 4 x 4: 16 ranks, each of which wants one block that 4 ranks hold.
  const auto step = redistribute_step(Layout::parse("{S(0), R}"), Layout::parse("{R, S(0)}"), {4, 4}, 2);
  for (int64_t rank = 0; rank < 16; ++rank) {
    const auto own = transfer(step, {16, 16}, {4, 4}, coordinate_at(rank, {4, 4}));
    int64_t given = 0;
    for (size_t member = 0; member < own.sends.size(); ++member) {
      given += static_cast<int64_t>(member) != rank && !carries_nothing(own.sends[member], 2) ? 1 : 0;
    }
    EXPECT_LE(given, 1) << "rank " << rank;
  }
}

TEST(Transfer, UnstridedBlocksAreViews) {
  const auto step = redistribute_step(Layout::parse("{S(0)}"), Layout::parse("{S(1)}"), {4}, 2);
  const auto own = transfer(step, {8, 8}, {4}, {1});
  for (const auto& box : own.sends) {
    EXPECT_TRUE(box.is_single());
  }
  const auto strided =
      transfer(redistribute_step(Layout::parse("{SS(0,2)}"), Layout::parse("{R}"), {2}, 1), {8}, {2}, {0});
  EXPECT_FALSE(strided.recvs[1].is_single());
}

TEST(Transfer, AReduceScatterSendsEveryMemberItsShard) {
  const Step step{StepKind::ReduceScatter, {0}, Layout::parse("{P(sum)}"), Layout::parse("{S(0)}")};
  const auto own = transfer(step, {5, 3}, {4}, {2});
  ASSERT_EQ(own.sends.size(), 4);
  EXPECT_EQ(own.sends[0].dims[0][0], (Intersection{0, 0, 2}));
  EXPECT_EQ(own.sends[2].dims[0][0], (Intersection{4, 0, 1}));
  EXPECT_TRUE(own.sends[3].is_empty());
  EXPECT_EQ(own.shape_after, c10::DimVector({1, 3}));
}

} // namespace transfer_test

} // namespace weft
