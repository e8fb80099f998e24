#include "weft/comm/collective.h"
#include "weft/comm/subject_scope.h"

#include <gtest/gtest.h>

#include <map>

namespace weft {

namespace collective_test {

constexpr std::array kAll = {
    Collective::AllGather, Collective::AllToAll,     Collective::ReduceScatter, Collective::AllReduce,
    Collective::Broadcast, Collective::Scatter,      Collective::Send,          Collective::Recv,
    Collective::Barrier,   Collective::CompareSeeds,
};

/// Calls that differ in every property that ranks may disagree about.
std::vector<Call> many_calls() {
  std::vector<Call> calls;
  for (const auto collective : kAll) {
    for (const auto op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product}) {
      for (const auto dtype : {c10::kFloat, c10::kDouble, c10::kBFloat16, c10::kHalf, c10::kLong, c10::kBool}) {
        for (int64_t root = 0; root < 8; ++root) {
          for (int64_t stage = 0; stage < 2; ++stage) {
            for (const auto subject : {uint32_t{0}, make_subject(1, 7), make_subject(2, 7), make_subject(2, 8)}) {
              calls.push_back(
                  {.collective = collective,
                   .op = op,
                   .root = root,
                   .dtype = dtype,
                   .stage = stage,
                   .subject = subject});
            }
          }
        }
      }
    }
  }
  return calls;
}

TEST(Collective, HasTheNameOfItsFunction) {
  std::string names;
  for (const auto collective : kAll) {
    names += std::string(to_string(collective)) + " ";
  }
  EXPECT_EQ(
      names, "all_gather all_to_all reduce_scatter all_reduce broadcast scatter send recv barrier compare_seeds ");
}

TEST(Call, TextSaysWhatOneRankHasCalled) {
  const auto text = [](Call call) {
    call.dtype = call.has_tensor() ? call.dtype : c10::kFloat;
    return call.to_string();
  };
  EXPECT_EQ(
      text({.collective = Collective::AllReduce, .op = ReduceOp::Max, .sizes = {4, 8}}), "all_reduce(max) f32[4,8]");
  EXPECT_EQ(
      text({.collective = Collective::ReduceScatter, .dtype = c10::kBFloat16, .sizes = {0, 3}}),
      "reduce_scatter(sum) bf16[0,3]");
  EXPECT_EQ(text({.collective = Collective::AllGather, .dtype = c10::kLong}), "all_gather i64[]");
  EXPECT_EQ(text({.collective = Collective::Broadcast, .root = 2, .sizes = {5}}), "broadcast(root 2) f32[5]");
  EXPECT_EQ(text({.collective = Collective::Scatter, .root = 1, .sizes = {5}}), "scatter(root 1) f32[5]");
  EXPECT_EQ(text({.collective = Collective::Send, .root = 1, .sizes = {5}}), "send(to member 1) f32[5]");
  EXPECT_EQ(text({.collective = Collective::Recv, .root = 0, .sizes = {5}}), "recv(from member 0) f32[5]");
  EXPECT_EQ(Call{.collective = Collective::Barrier}.to_string(), "barrier");
  EXPECT_EQ(Call{.collective = Collective::AllToAll}.to_string(), "all_to_all");
  EXPECT_EQ(
      text({.collective = Collective::AllGather, .sizes = {12}, .subject = make_subject(3, 0x5a1f)}),
      "all_gather f32[12] of unit 3 (lengths 5a1f)");
}

TEST(Call, MatchesWhereRanksMeanTheSameOne) {
  const Call reduce{.collective = Collective::AllReduce, .dtype = c10::kFloat, .sizes = {4}};
  EXPECT_TRUE(reduce.matches({.collective = Collective::AllReduce, .dtype = c10::kFloat, .sizes = {5}}))
      << "sizes may differ between ranks";
  EXPECT_FALSE(reduce.matches({.collective = Collective::AllGather, .sizes = {4}}));
  EXPECT_FALSE(reduce.matches({.collective = Collective::AllReduce, .op = ReduceOp::Max, .sizes = {4}}));
  EXPECT_FALSE(reduce.matches({.collective = Collective::AllReduce, .dtype = c10::kDouble, .sizes = {4}}));
  EXPECT_FALSE(reduce.matches({.collective = Collective::AllReduce, .sizes = {4}, .stage = 1}));
  EXPECT_FALSE(reduce.matches({.collective = Collective::AllReduce, .dtype = c10::kFloat, .subject = 1}));
  const Call from_zero{.collective = Collective::Broadcast};
  EXPECT_FALSE(from_zero.matches({.collective = Collective::Broadcast, .root = 1}));
}

TEST(Call, IgnoresWhatItsCollectiveHasNot) {
  const Call gather{.collective = Collective::AllGather};
  EXPECT_TRUE(gather.matches({.collective = Collective::AllGather, .op = ReduceOp::Max, .root = 3}));
  const Call with_nothing{.collective = Collective::AllToAll};
  EXPECT_TRUE(with_nothing.matches({.collective = Collective::AllToAll, .dtype = c10::kLong}));
}

TEST(Call, ASendMatchesItsRecv) {
  const Call send{.collective = Collective::Send, .root = 1, .dtype = c10::kFloat};
  EXPECT_TRUE(send.matches({.collective = Collective::Recv, .root = 0, .dtype = c10::kFloat}));
  EXPECT_FALSE(send.matches({.collective = Collective::Recv, .root = 0, .dtype = c10::kDouble}));
}

TEST(Call, FingerprintsDifferExactlyWhereCallsDoNotMatch) {
  std::map<uint64_t, Call> by_fingerprint;
  for (const auto& call : many_calls()) {
    const auto [other, is_new] = by_fingerprint.emplace(call.fingerprint(), call);
    ASSERT_TRUE(is_new || call.matches(other->second)) << call.to_string() << " and " << other->second.to_string();
  }
  // The number of distinct calls if ops, roots and directions are compared only for collectives that have them.
  constexpr size_t kDtypes = 6, kStages = 2, kSubjects = 4;
  constexpr size_t kPlain = 4, kReductions = 2 * 5, kRooted = 2 * 8, kMessages = 1;
  EXPECT_EQ(by_fingerprint.size(), (kPlain + kReductions + kRooted + kMessages) * kDtypes * kStages * kSubjects);
}

} // namespace collective_test

} // namespace weft
