#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/kernels/kernels.h"

namespace weft {

namespace as_strided_test {
using namespace weft::testing;
using Values = std::vector<at::Tensor>;
using View = std::function<at::Tensor(const at::Tensor&)>;

/// Views, each of which is asked for by its sizes, strides and offset.
const std::vector<View>& views() {
  static const std::vector<View> all = {
      [](const at::Tensor& x) { return x.slice(0, 1, 3); },
      [](const at::Tensor& x) { return x.slice(1, 2, 5); },
      [](const at::Tensor& x) { return x.select(0, 3); },
      [](const at::Tensor& x) { return x.select(1, 5); },
      [](const at::Tensor& x) { return x.select(0, 2).select(0, 4); },
      [](const at::Tensor& x) { return x.t(); },
      [](const at::Tensor& x) { return x.t().slice(0, 1, 4).unsqueeze(1); },
      [](const at::Tensor& x) { return x.view({2, 2, 6}); },
      [](const at::Tensor& x) { return x.view({4, 3, 2}).permute({2, 0, 1}); },
      [](const at::Tensor& x) { return x.view({2, 2, 2, 3}).select(1, 1); },
      [](const at::Tensor& x) { return x.view({24}); },
      [](const at::Tensor& x) { return x.view({24}).slice(0, 5, 17); },
      [](const at::Tensor& x) { return x.slice(1, 0, 6, 2); },
      [](const at::Tensor& x) { return x.slice(0, 1, 4, 2).t(); },
      [](const at::Tensor& x) { return x.select(0, 1).expand({3, 6}); },
      [](const at::Tensor& x) { return x.unsqueeze(0).unsqueeze(2); },
  };
  return all;
}

TEST(AsStrided, GivesViewsOfAnyLayout) {
  const auto global = whole_numbers({4, 6});
  on_all_layouts(2, {Replicate(), Shard(0), Shard(1), Partial()}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto x = from_local(part_of(global, mesh, layout), mesh, layout, global.sizes());
    for (size_t i = 0; i < views().size(); ++i) {
      SCOPED_TRACE(c10::str("view ", i));
      const auto view = views()[i](global);
      const auto actual = x.as_strided(view.sizes(), view.strides(), view.storage_offset());
      EXPECT_EQ(actual.storage_offset(), view.storage_offset());
      EXPECT_EQ(actual.strides(), view.strides());
      expect_equal(full_tensor(actual), view);
    }
  });
}

TEST(AsStrided, AViewOfAViewCountsFromTheSameBeginning) {
  const auto global = whole_numbers({4, 6});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    const auto inner = x.slice(1, 1, 5);
    const auto expected = global.slice(1, 1, 5).slice(1, 1, 3).t();
    const auto actual = inner.as_strided(expected.sizes(), expected.strides(), expected.storage_offset());
    EXPECT_EQ(actual.storage_offset(), expected.storage_offset());
    expect_equal(full_tensor(actual), expected);
    EXPECT_TRUE(to_local(actual).is_alias_of(to_local(x)));
  });
}

TEST(AsStrided, TheTensorItselfIsAnAlias) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(1)});
    const auto same = x.as_strided({4, 6}, {6, 1});
    EXPECT_TRUE(to_local(same).is_alias_of(to_local(x)));
    EXPECT_EQ(spec_of(same), spec_of(x));
  });
}

TEST(AsStrided, AViewBeyondTheTensorRaises) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)});
    EXPECT_EQ(
        error_text<c10::NotImplementedError>([&] { x.as_strided({6, 3}, {5, 1}, 0); }),
        "[as_strided] a view of f32[4,6] @ mesh(a=2) {S(0)} must stay within its own elements, but got sizes [6, 3], "
        "strides [5, 1] and offset 0. Take it of the tensor that this is a view of, or of full_tensor(t).");
    expect_contains(
        error_text<c10::NotImplementedError>([&] { x.slice(1, 2).as_strided({2}, {1}, 0); }), "and offset 0");
    expect_contains(error_text<c10::NotImplementedError>([&] { x.as_strided({6}, {1}, 20); }), "and offset 20");
  });
}

TEST(AsStrided, DimsMayBeJoinedAndThenSplitOtherwise) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 6});
    const auto x = distribute_tensor(global, mesh, {Shard(0)});
    expect_equal(full_tensor(x.as_strided({3, 8}, {8, 1}, 0)), global.view({3, 8}));
  });
}

TEST(AsStrided, OverlappingWindowsAreTakenOfTheReplicatedTensor) {
  const auto global = whole_numbers({4, 6});
  on_all_layouts(2, {Replicate(), Shard(0), Shard(1), Partial()}, [&](const DeviceMesh& mesh, const Layout& layout) {
    const auto x = from_local(part_of(global, mesh, layout), mesh, layout, global.sizes());
    expect_equal(full_tensor(x.as_strided({4, 3}, {1, 1}, 2)), global.as_strided({4, 3}, {1, 1}, 2));
    expect_equal(full_tensor(x.t().as_strided({3, 3}, {5, 1}, 1)), global.as_strided({3, 3}, {5, 1}, 1));
    expect_equal(full_tensor(x.as_strided({3, 0}, {1, 1}, 25)), global.as_strided({3, 0}, {1, 1}, 25));
  });
}

TEST(AsStrided, WindowsOfAReplicatedTensorShareItsMemoryAndThoseOfOthersCannotBeWrittenTo) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto global = whole_numbers({4, 6});
    const auto replicated = distribute_tensor(global, mesh, {Replicate()});
    replicated.as_strided({3, 3}, {5, 1}, 0).fill_(-1);
    const auto expected = global.clone();
    expected.as_strided({3, 3}, {5, 1}, 0).fill_(-1);
    expect_equal(full_tensor(replicated), expected);
    const auto sharded = distribute_tensor(global, mesh, {Shard(0)});
    expect_contains(
        error_text<c10::ValueError>([&] { sharded.as_strided({3, 3}, {5, 1}, 0).fill_(-1); }),
        "is a view that had to be redistributed");
  });
}

TEST(AsStrided, WindowsHaveAGradient) {
  const auto input = parameter({4, 6});
  expect_as_plain({input}, [](const Values& in) -> Values {
    const auto windows = in[0].as_strided({5, 4}, {4, 1}, 1);
    (windows * windows).sum().backward();
    return {windows.detach(), in[0].grad()};
  });
}

TEST(AsStrided, WritesThroughViewsReachTheBaseAndOtherViewsUnderAutograd) {
  struct Case {
    View view;
    Layout layout; // under which the view shares memory
  };
  const std::vector<Case> cases = {
      {[](const at::Tensor& x) { return x.t(); }, {Shard(0)}},
      {[](const at::Tensor& x) { return x.t(); }, {Shard(1)}},
      {[](const at::Tensor& x) { return x.view({4, 3, 2}).permute({2, 0, 1}); }, {Shard(0)}},
      {[](const at::Tensor& x) { return x.slice(1, 1, 4); }, {Shard(0)}},
      {[](const at::Tensor& x) { return x.select(0, 2); }, {Shard(1)}},
      {[](const at::Tensor& x) { return x.view({24}).slice(0, 3, 20); }, {Replicate()}},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(c10::str("case ", i));
    const auto program = [&](const at::Tensor& leaf) {
      const auto x = leaf * 1;
      const auto before = x.t();
      cases[i].view(x).mul_(2);
      (before * before * before).sum().backward();
      return Values{x.detach(), before.detach(), leaf.grad()};
    };
    const auto global = whole_numbers({4, 6});
    const auto expected = program(global.clone().set_requires_grad(true));
    on_mesh({2}, [&](const DeviceMesh& mesh) {
      const auto actual = program(distribute_tensor(global, mesh, cases[i].layout).set_requires_grad(true));
      for (size_t k = 0; k < expected.size(); ++k) {
        expect_equal(full_tensor(actual[k]), expected[k]);
      }
    });
  }
}

} // namespace as_strided_test

} // namespace weft
