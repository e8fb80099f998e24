#include "weft/tensor/scopes.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

#include <thread>

namespace weft {

namespace scopes_test {
using namespace weft::testing;

TEST(DebugScope, HoldsWhileItLasts) {
  EXPECT_FALSE(debug_enabled());
  {
    const DebugScope debug;
    EXPECT_TRUE(debug_enabled());
    {
      const DebugScope off(false);
      EXPECT_FALSE(debug_enabled());
    }
    EXPECT_TRUE(debug_enabled());
  }
  EXPECT_FALSE(debug_enabled());
}

TEST(DebugScope, IsOfItsThreadAlone) {
  const DebugScope debug;
  bool elsewhere = true;
  std::thread([&] { elsewhere = debug_enabled(); }).join();
  EXPECT_FALSE(elsewhere);
}

TEST(StrictScope, WhatNeedsNoCommunicationRuns) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto whole = whole_numbers({4, 2});
    const auto x = distribute_tensor(whole, mesh, {Shard(0)});
    at::Tensor result;
    {
      const StrictScope strict;
      result = (x * 2 + x).sum();
    }
    expect_equal(full_tensor(result), (whole * 3).sum());
  });
}

TEST(StrictScope, WhatWouldCommunicateRaisesWithThePlan) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto whole = whole_numbers({4, 2});
    const auto x = distribute_tensor(whole, mesh, {Shard(0)});
    const auto y = distribute_tensor(whole, mesh, {Shard(1)});
    const auto moves = [&] { x.mul(y); };
    {
      const StrictScope strict;
      const auto text = error_text<c10::ValueError>(moves);
      expect_contains(
          text,
          "[aten::mul.Tensor] would communicate, which the strict scope forbids:\n"
          "aten::mul.Tensor(f32[4,2] @ mesh(a=2) {S(0)}, f32[4,2] @ mesh(a=2) {S(1)}): ");
      expect_contains(text, ": all_to_all(a: S(");
      expect_contains(text, "\n  8 bytes\n");
      expect_contains(text, "\nRedistribute the inputs first, or leave the scope.");
      EXPECT_EQ(error_text<c10::ValueError>(moves), text) << "the second such call is found in the cache";
      {
        const StrictScope off(false);
        moves();
      }
      expect_contains(error_text<c10::ValueError>(moves), "would communicate");
    }
    expect_equal(full_tensor(x.mul(y)), whole * whole);
  });
}

TEST(StrictScope, WhatIsAskedForByNameIsAllowed) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto whole = whole_numbers({4, 2});
    const auto x = distribute_tensor(whole, mesh, {Shard(0)});
    const StrictScope strict;
    expect_equal(to_local(redistribute(x, {Replicate()})), whole);
    expect_equal(full_tensor(x), whole);
  });
}

TEST(StrictScope, WhatIsMadeOfOtherOperatorsRaisesToo) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const StrictScope strict;
    expect_contains(error_text<c10::ValueError>([&] { at::linalg_vector_norm(x); }), "would communicate");
    expect_contains(error_text<c10::ValueError>([&] { at::_foreach_norm({x}); }), "would communicate");
    expect_contains(error_text<c10::ValueError>([&] { at::equal(x, x); }), "would communicate");
  });
}

TEST(ReplicatePlainScope, PlainTensorsCountAsReplicated) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto whole = whole_numbers({4, 2});
    const auto x = distribute_tensor(whole, mesh, {Shard(0)});
    {
      const ReplicatePlainScope replicate;
      const auto sum = x + whole;
      EXPECT_EQ(spec_of(sum)->layout(), Layout{Shard(0)});
      expect_equal(full_tensor(sum), whole + whole);
      expect_equal(full_tensor(at::cat({whole, x})), at::cat({whole, whole}));
      expect_equal(full_tensor(x.index({at::tensor({3, 0}, at::kLong)})), whole.index({at::tensor({3, 0}, at::kLong)}));
    }
    expect_contains(error_text<c10::ValueError>([&] { x.add(whole); }), "cannot be mixed");
  });
}

TEST(ReplicatePlainScope, ADistributedResultCannotBeStoredInAPlainTensor) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto plain = whole_numbers({4, 2});
    const auto x = distribute_tensor(plain, mesh, {Shard(0)});
    const ReplicatePlainScope replicate;
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { plain.add_(x); }),
        "[aten::add_] a distributed result cannot be stored in a plain tensor, but argument 'self' is one of shape "
        "[4, 2]. Distribute it with distribute_tensor or from_local.");
  });
}

} // namespace scopes_test

} // namespace weft
