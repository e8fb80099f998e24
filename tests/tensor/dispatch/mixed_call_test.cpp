#include "weft/tensor/dispatch/mixed_call.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <string_view>

namespace weft {

namespace mixed_call_test {
using namespace weft::testing;

constexpr auto kMixed = "distributed and plain tensors cannot be mixed";

TEST(MixedCall, ListsMayHavePlainAndDistributedElements) {
  const auto global = whole_numbers({4, 6});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto plain = global.clone();
    const auto distributed = distribute_tensor(global, mesh, {Shard(0)});
    at::_foreach_addcmul_({plain, distributed}, {plain, distributed}, {plain, distributed}, 2);
    expect_equal(plain, global + 2 * global * global);
    expect_equal(full_tensor(distributed), plain);
    const auto norms = at::_foreach_norm({plain, distributed});
    EXPECT_FALSE(is_dtensor(norms[0]));
    expect_equal(full_tensor(norms[1]), norms[0]);
  });
}

/// How often an operator is called, on plain or on distributed tensors, while this exists; by this thread.
class CountCalls {
 public:
  explicit CountCalls(const char* name) {
    called = name;
    count = 0;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) {
      count += std::string_view(function.name()) == called ? 1 : 0;
      return std::unique_ptr<at::ObserverContext>();
    }));
  }
  ~CountCalls() {
    at::removeCallback(handle_);
  }
  static int64_t found() {
    return count;
  }

 private:
  static thread_local const char* called;
  static thread_local int64_t count;
  at::CallbackHandle handle_;
};
thread_local const char* CountCalls::called = nullptr;
thread_local int64_t CountCalls::count = 0;

TEST(MixedCall, OneCallServesAllPlainElementsAndOneThoseOfEachMesh) {
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const auto flat = mesh.flatten({"a", "b"});
    std::vector<at::Tensor> expected;
    std::vector<at::Tensor> elements;
    for (int64_t i = 0; i < 9; ++i) {
      expected.push_back(whole_numbers({4, i + 1}).abs() + 1);
      const auto element = expected.back().clone();
      elements.push_back(
          i % 3 == 0       ? element
              : i % 3 == 1 ? distribute_tensor(element, mesh, {Shard(0), Shard(1)})
                           : distribute_tensor(element, flat, {Shard(0)}));
    }
    const std::vector<at::Scalar> numbers{1, 2, 3, 4, 5, 6, 7, 8, 9};
    const auto tensor = at::arange(1, 10, at::kFloat);
    at::_foreach_addcdiv_(expected, expected, expected, tensor);
    at::_foreach_mul_(expected, numbers);
    at::_foreach_mul_(expected, numbers);
    at::_foreach_addcdiv_(elements, elements, elements, tensor);
    at::_foreach_mul_(elements, numbers); // prepares the calls
    {
      const CountCalls counted("aten::_foreach_mul_");
      at::_foreach_mul_(elements, numbers);
      // The call itself, that of the plain elements, and those of each mesh with its local call.
      EXPECT_EQ(counted.found(), 1 + 1 + 2 * 2);
    }
    const auto roots = at::_foreach_sqrt(elements);
    for (size_t i = 0; i < elements.size(); ++i) {
      expect_equal(is_dtensor(elements[i]) ? full_tensor(elements[i]) : elements[i], expected[i]);
      EXPECT_EQ(is_dtensor(roots[i]), is_dtensor(elements[i]));
      expect_equal(is_dtensor(roots[i]) ? full_tensor(roots[i]) : roots[i], expected[i].sqrt());
    }
  });
}

TEST(MixedCall, ElementsThatShareMemoryRunOneAfterTheOther) {
  const auto global = whole_numbers({4, 6});
  auto a = global.clone();
  auto b = global * 2;
  auto c = global * 3;
  at::_foreach_add_({a, b, c}, {b, a, b});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto plain = global * 2;
    const auto as_replicated = from_local(plain, mesh, {Replicate()});
    const auto first = distribute_tensor(global, mesh, {Replicate()});
    const auto local = first.alias();
    const auto last = distribute_tensor(global * 3, mesh, {Replicate()});
    at::_foreach_add_({first, plain, last}, {as_replicated, to_local(local), as_replicated});
    expect_equal(full_tensor(first), a);
    expect_equal(plain, b);
    expect_equal(full_tensor(last), c);
  });
}

TEST(MixedCall, ANumberChangesAPlainTensorInPlace) {
  const auto global = whole_numbers({4, 6});
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto plain = global.clone();
    const auto two = distribute_tensor(at::full({}, 2.0F), mesh, {Replicate()});
    const auto terms = from_local(at::full({}, 2.0F), mesh, {Partial()});
    plain.mul_(two);
    expect_equal(plain, global * 2);
    plain.mul_(terms);
    expect_equal(plain, global * 8);
    const auto distributed = distribute_tensor(global, mesh, {Shard(0)});
    at::_foreach_mul_({plain, distributed}, two);
    expect_equal(plain, global * 16);
    expect_equal(full_tensor(distributed), global * 2);
  });
}

TEST(MixedCall, OtherCallsRaise) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto plain = at::ones({4});
    const auto distributed = distribute_tensor(at::ones({4}), mesh, {Shard(0)});
    const auto number = distribute_tensor(at::ones({}), mesh, {Replicate()});
    const std::vector<std::function<void()>> calls = {
        [&] { plain + distributed; },
        [&] { plain* number; },
        [&] { plain.mul_(distributed); },
        [&] { distributed.mul_(plain); },
        [&] { at::_foreach_add({plain, distributed}, {distributed, plain}); },
        [&] { at::_foreach_add_({distributed}, {plain}); },
    };
    for (const auto& call : calls) {
      expect_contains(error_text<c10::ValueError>(call), kMixed);
    }
  });
}

} // namespace mixed_call_test
} // namespace weft
