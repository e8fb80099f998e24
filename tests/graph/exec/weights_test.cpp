#include "weft/graph/exec/weights.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/program_builder.h"
#include "weft/graph/exec/executor.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <sys/mman.h>

namespace weft::graph {

namespace weights_test {

using namespace weft::testing;

TEST(Weights, AreReadWithoutACopyUnlessTheyAreChanged) {
  ProgramBuilder build;
  const auto weight = whole_numbers({4, 2}).t().set_requires_grad(true);
  build.parameter("weight", weight);
  build.buffer("state", whole_numbers({3}));
  const auto program = build.finish();
  const c10::InferenceMode inference;
  const Weights weights(*program, {"state"});
  EXPECT_EQ(weights.at("weight").const_data_ptr(), weight.const_data_ptr());
  EXPECT_EQ(weights.at("weight").strides(), weight.strides());
  EXPECT_TRUE(weights.at("weight").is_inference());
  EXPECT_NE(weights.at("state").const_data_ptr(), program->tensors.at("state").const_data_ptr());
  expect_equal(weights.at("state"), whole_numbers({3}));
  EXPECT_EQ(weights.read_only().size(), 1);
}

TEST(Weights, OfOneTensorStayOne) {
  ProgramBuilder build;
  const auto shared = whole_numbers({3});
  build.buffer("a", shared);
  build.buffer("b", shared);
  build.buffer("c", shared.view({3}));
  const auto program = build.finish();
  const c10::InferenceMode inference;
  const Weights weights(*program, {"c"});
  for (const auto* name : {"a", "b"}) {
    EXPECT_EQ(weights.at(name).const_data_ptr(), weights.at("c").const_data_ptr());
  }
  EXPECT_NE(weights.at("a").const_data_ptr(), shared.const_data_ptr());
  EXPECT_TRUE(weights.read_only().empty());
}

TEST(Weights, ThatAreChangedMustNotShareMemory) {
  ProgramBuilder build;
  const auto whole = whole_numbers({8});
  build.buffer("whole", whole);
  build.buffer("first", whole.narrow(0, 0, 2));
  build.buffer("last", whole.narrow(0, 6, 2));
  const auto program = build.finish();
  const c10::InferenceMode inference;
  Weights(*program, {});
  EXPECT_EQ(
      error_text<c10::NotImplementedError>([&] { Weights(*program, {"last"}); }),
      "[Executor] a tensor that the program changes must not share part of its memory, but 'last' shares some with "
      "'whole'.");
  EXPECT_EQ(
      error_text<c10::NotImplementedError>([&] { Weights(*program, {"whole"}); }),
      "[Executor] a tensor that the program changes must not share part of its memory, but 'whole' shares some with "
      "'first'.");
}

/// Read-only memory, like that of a mapped file.
class ReadOnlyMemory {
 public:
  ReadOnlyMemory() : memory_(mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
  ~ReadOnlyMemory() {
    munmap(memory_, kBytes);
  }
  ReadOnlyMemory(const ReadOnlyMemory&) = delete;
  ReadOnlyMemory& operator=(const ReadOnlyMemory&) = delete;

  at::Tensor zeros() const {
    return at::from_blob(memory_, {4});
  }

 private:
  static constexpr size_t kBytes = 4096;
  void* memory_;
};

TEST(Weights, MayBeStoredInReadOnlyMemory) {
  const ReadOnlyMemory by_signature_memory;
  const ReadOnlyMemory in_place_memory;
  const ReadOnlyMemory read_memory;
  ProgramBuilder build;
  auto* by_signature = build.buffer("by_signature", by_signature_memory.zeros());
  auto* in_place = build.buffer("in_place", in_place_memory.zeros());
  auto* read = build.parameter("read", read_memory.zeros());
  build.output(build.call("aten::add.Scalar", {by_signature, 1}), OutputKind::BufferMutation, "by_signature");
  build.output(build.call("aten::add_.Scalar", {build.call("aten::view", {in_place, std::vector<int64_t>{2, 2}}), 1}));
  build.output(build.call("aten::add.Scalar", {read, 1}));
  Executor executor(build.finish());
  executor.run({});
  const auto outputs = executor.run({});
  expect_equal(executor.tensor("by_signature"), at::full({4}, 2.0));
  expect_equal(executor.tensor("in_place"), at::full({4}, 2.0));
  expect_equal(outputs[1].toTensor(), at::ones({4}));
}

TEST(Weights, AreNotChangedByADetachInPlace) {
  ProgramBuilder build;
  auto* weight = build.parameter("weight", at::ones({2}));
  build.output(build.call("aten::detach_", {weight}));
  Executor executor(build.finish());
  expect_equal(executor.run({})[0].toTensor(), at::ones({2}));
}

// Returns its input although its schema does not say so.
TORCH_LIBRARY_FRAGMENT(weft_test, library) {
  library.def("same(Tensor x) -> Tensor", [](const at::Tensor& x) { return x; });
}

TEST(Weights, AreNotWrittenToWhereAnOperatorHidesThem) {
  for (const bool in_list : {false, true}) {
    ProgramBuilder build;
    auto* weight = build.parameter("weight", at::ones({2}));
    auto* same = build.call("weft_test::same", {weight});
    if (in_list) {
      build.node("aten::_foreach_add_.Scalar", {std::vector{same}, 1});
    } else {
      build.node("aten::add_.Scalar", {same, 1});
    }
    const auto program = build.finish();
    Executor executor(program);
    const auto text = error_text<c10::NotImplementedError>([&] { executor.run({}); });
    expect_contains(text, " must write to memory that is known before to be written");
    expect_equal(program->tensors.at("weight"), at::ones({2}));
  }
}

} // namespace weights_test

} // namespace weft::graph
