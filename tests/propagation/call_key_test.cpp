#include "weft/propagation/call_key.h"
#include "tests/support/error_text.h"

#include <ATen/core/List.h>
#include <gtest/gtest.h>

namespace weft {

namespace call_key_test {
using namespace weft::testing;
using c10::IValue;

CallKey with_static(const IValue& value) {
  CallKey key;
  key.add_static(value);
  return key;
}

CallKey with_type(const IValue& value) {
  CallKey key;
  key.add_type(value);
  return key;
}

TEST(CallKey, EqualKeysHaveEqualHashes) {
  CallKey a;
  CallKey b;
  for (const uint64_t word : {1U, 2U, 3U}) {
    a.add(word);
    b.add(word);
  }
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.hash(), b.hash());
  b.add(0);
  EXPECT_FALSE(a == b);
  EXPECT_NE(a.hash(), b.hash());
}

TEST(CallKey, StaticNumbersDifferByTheirValue) {
  EXPECT_EQ(with_static(IValue(0.5)), with_static(IValue(0.5)));
  EXPECT_FALSE(with_static(IValue(0.5)) == with_static(IValue(0.25)));
  EXPECT_FALSE(with_static(IValue(1.0)) == with_static(IValue(1)));
}

TEST(CallKey, KeepsAnyNumberOfWords) {
  constexpr uint64_t kWords = 1000;
  const auto with_last = [](uint64_t last) {
    CallKey key;
    for (uint64_t word = 0; word < kWords; ++word) {
      key.add(word);
    }
    key.add(last);
    return key;
  };
  EXPECT_EQ(with_last(1), with_last(1));
  EXPECT_FALSE(with_last(1) == with_last(2));
  auto key = with_last(1);
  const auto moved = std::move(key);
  key = CallKey();
  key.add(1);
  CallKey expected;
  expected.add(1);
  EXPECT_EQ(key, expected);
  EXPECT_EQ(moved, with_last(1));
}

TEST(CallKey, TheOrderOfWordsCounts) {
  CallKey a;
  CallKey b;
  a.add(1);
  a.add(2);
  b.add(2);
  b.add(1);
  EXPECT_FALSE(a == b);
  EXPECT_NE(a.hash(), b.hash());
}

TEST(CallKey, TheValueOfAStaticArgumentCounts) {
  const std::vector<IValue> values = {
      IValue(),
      1,
      2,
      std::vector<int64_t>{},
      std::vector<int64_t>{1},
      std::vector<int64_t>{1, 2},
      std::vector<int64_t>{2, 1},
      "none",
      "tanh",
      c10::Device(c10::kCPU),
      c10::Device(c10::kCUDA, 1)};
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t k = 0; k < values.size(); ++k) {
      EXPECT_EQ(with_static(values[i]) == with_static(values[k]), i == k) << values[i] << " and " << values[k];
    }
  }
  EXPECT_FALSE(with_static(true) == with_static(false));
  EXPECT_EQ(with_static(c10::List<bool>({true, false})), with_static(c10::List<bool>({true, false})));
  EXPECT_FALSE(with_static(c10::List<bool>({true, false})) == with_static(c10::List<bool>({true, true})));
}

TEST(CallKey, ListsThatFollowEachOtherDoNotRunTogether) {
  CallKey a;
  a.add_static(std::vector<int64_t>{1});
  a.add_static(std::vector<int64_t>{2, 3});
  CallKey b;
  b.add_static(std::vector<int64_t>{1, 2});
  b.add_static(std::vector<int64_t>{3});
  EXPECT_FALSE(a == b);
}

CallKey with_layout(const Layout& layout) {
  CallKey key;
  key.add(layout);
  return key;
}

TEST(CallKey, LayoutsThatDifferInAPlacementOrInTheShardOrderHaveOtherKeys) {
  const std::vector<Layout> layouts = {
      {Replicate(), Replicate()},
      {Shard(0), Replicate()},
      {Replicate(), Shard(0)},
      {Shard(1), Replicate()},
      {Shard(-1), Replicate()},
      {StridedShard(0, 2), Replicate()},
      {Partial(), Replicate()},
      {Partial(ReduceOp::Avg), Replicate()},
      {Shard(0), Shard(0)},
      Layout::parse("{S(0)[1], S(0)[0]}"),
      {Shard(0)}};
  for (size_t i = 0; i < layouts.size(); ++i) {
    for (size_t k = 0; k < layouts.size(); ++k) {
      EXPECT_EQ(with_layout(layouts[i]) == with_layout(layouts[k]), i == k) << layouts[i] << layouts[k];
    }
  }
}

TEST(CallKey, OfANumberTheTypeAloneCounts) {
  EXPECT_EQ(with_type(1), with_type(2));
  EXPECT_EQ(with_type(0.5), with_type(1e9));
  EXPECT_FALSE(with_type(1) == with_type(1.0));
  EXPECT_FALSE(with_type(1) == with_type(true));
  EXPECT_FALSE(with_type(1.0) == with_type(c10::complex<double>(1, 0)));
  EXPECT_FALSE(with_type(1.0) == with_type(IValue()));
}

TEST(CallKey, OfAListOfNumbersTheLengthAndTypesCount) {
  EXPECT_EQ(with_type(std::vector<double>{1, 2}), with_type(std::vector<double>{3, 4}));
  EXPECT_FALSE(with_type(std::vector<double>{1, 2}) == with_type(std::vector<double>{1}));
  const auto scalars = [](const at::Scalar& first) {
    c10::List<at::Scalar> list;
    list.push_back(first);
    return IValue(list);
  };
  EXPECT_EQ(with_type(scalars(1)), with_type(scalars(2)));
  EXPECT_FALSE(with_type(scalars(1)) == with_type(scalars(1.5)));
}

TEST(CallKey, AnArgumentThatIsNotKnownIsAnError) {
  EXPECT_EQ(
      error_text<c10::NotImplementedError>([] { with_static(IValue(c10::complex<double>(0, 1))); }),
      "[dispatch] arguments of type ComplexDouble are not known on distributed tensors.");
}

} // namespace call_key_test

} // namespace weft
