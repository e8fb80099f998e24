#include "weft/tensor/dispatch/prepare.h"
#include "tests/support/against_plain.h"
#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

namespace weft {

namespace prepare_test {
using namespace weft::testing;

c10::OperatorHandle op_of(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

/// Prepares a call with these arguments, whose tensors are in no lists.
PreparedCall prepared(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments) {
  OperandRefs operands;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isTensor()) {
      const auto& tensor = arguments[i].toTensor();
      operands.push_back({static_cast<int32_t>(i), -1, &tensor, as_dtensor(tensor)});
    }
  }
  return prepare(op, OperatorTraits(op), arguments, operands);
}

TEST(Prepare, WhereNothingMovesThereIsNoPlan) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({5, 2}), mesh, {Shard(0)});
    const auto call = prepared(op_of("aten::neg"), {x});
    EXPECT_EQ(call.operands, std::vector<SpecPtr>{spec_of(x)});
    EXPECT_TRUE(call.moves.empty());
    EXPECT_TRUE(call.write_backs.empty());
    EXPECT_FALSE(call.communicates);
    EXPECT_FALSE(call.is_fallback);
    EXPECT_TRUE(call.outputs_known);
    ASSERT_EQ(call.outputs.size(), 1U);
    EXPECT_EQ(call.outputs[0].spec, spec_of(x));
    EXPECT_FALSE(call.outputs[0].is_view);
    EXPECT_TRUE(call.outputs[0].contiguous);
  });
}

TEST(Prepare, OperandsThatMustBeRedistributedGetAPlan) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)});
    const auto weight = distribute_tensor(whole_numbers({8, 6}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto call = prepared(op_of("aten::linear"), {x, weight, c10::IValue()});
    ASSERT_EQ(call.moves.size(), 2U);
    ASSERT_NE(call.moves[0], nullptr);
    EXPECT_EQ(call.moves[0]->plan().to_string(), "all_gather(a: S(0) -> R)");
    EXPECT_EQ(call.moves[1], nullptr) << "a parameter stays where it is";
    EXPECT_TRUE(call.communicates);
    EXPECT_EQ(call.outputs.at(0).spec->to_string(), "f32[4,8] @ mesh(a=2) {S(1)}");
    EXPECT_EQ(call.explanation->bytes, 2 * 6 * 4);
  });
}

TEST(Prepare, ArgumentsThatNoDeviceTakesRaiseAsThere) {
  // A rule would read sizes that tensors with too few dims do not have.
  const auto programs = std::vector<TensorProgram>{
      [](const Values& in) -> Values { return {at::mm(in[0], in[0])}; },
      [](const Values& in) -> Values { return {at::bmm(in[0], in[0])}; },
      [](const Values& in) -> Values { return {at::mv(in[0], in[0])}; },
      [](const Values& in) -> Values { return {at::dot(in[0], in[0])}; },
      [](const Values& in) -> Values { return {at::addmm(in[0], in[0], in[0])}; },
      [](const Values& in) -> Values { return {at::addmm(in[1], in[2], in[2])}; },
      [](const Values& in) -> Values { return {at::baddbmm(in[0], in[0], in[0])}; },
      [](const Values& in) -> Values { return {at::addmv(in[0], in[0], in[0])}; },
      [](const Values& in) -> Values { return {at::linear(in[0], in[1])}; },
      [](const Values& in) -> Values { return {at::linear(in[0], in[2], in[1])}; },
      [](const Values& in) -> Values { return {at::matmul(in[0], in[3])}; },
      [](const Values& in) -> Values { return {at::einsum("ij,jk->ik", {in[0], in[0]})}; },
      [](const Values& in) -> Values { return {at::softmax(in[0], 7)}; },
      [](const Values& in) -> Values { return {in[0].mean({7})}; },
      [](const Values& in) -> Values { return {in[0].select(5, 0)}; },
      [](const Values& in) -> Values { return {at::conv1d(in[0], in[0])}; },
      [](const Values& in) -> Values { return {at::layer_norm(in[0], {7})}; },
      [](const Values& in) -> Values { return {at::cumsum(in[0], 6)}; },
  };
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{}, {5}, {5, 5}, {5, 5, 5}}) {
    const Values inputs = {
        parameter(sizes).detach(), parameter({3, 5, 5}).detach(), parameter({5, 5}).detach(),
        parameter({7, 7}).detach()};
    for (const auto& program : programs) {
      try {
        program(inputs);
      } catch (const c10::Error&) {
        error_as_plain(inputs, program);
      }
    }
  }
}

TEST(Prepare, SizesThatAreStatedBecomeLocalOnes) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)});
    const auto call = prepared(op_of("aten::view"), {x, std::vector<int64_t>{4, 3, 2}});
    ASSERT_EQ(call.local_arguments.size(), 1U);
    EXPECT_EQ(call.local_arguments[0].argument, 1);
    EXPECT_EQ(call.local_arguments[0].value.toIntVector(), (std::vector<int64_t>{2, 3, 2}));
    ASSERT_EQ(call.outputs.size(), 1U);
    EXPECT_TRUE(call.outputs[0].is_view);
    EXPECT_FALSE(call.outputs[0].is_copy);
  });
}

TEST(Prepare, AViewKnowsItsOffsetAndWhetherItIsACopy) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)});
    const auto column = prepared(op_of("aten::select", "int"), {x, 1, 2});
    EXPECT_EQ(column.outputs.at(0).offset, 2);
    EXPECT_FALSE(column.outputs[0].is_copy);
    const auto row = prepared(op_of("aten::select", "int"), {x, 0, 2});
    EXPECT_EQ(row.outputs.at(0).offset, 12);
    EXPECT_TRUE(row.outputs[0].is_copy) << "the row is on one rank alone";
  });
}

TEST(Prepare, ALookupInAShardedTableKnowsItsRows) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto table = distribute_tensor(whole_numbers({5, 2}), mesh, {Shard(0)}).set_requires_grad(true);
    const auto positions = distribute_tensor(at::tensor({4, 0, 3}, at::kLong), mesh, {Replicate()});
    const auto call = prepared(op_of("aten::embedding"), {table, positions, -1, false, false});
    ASSERT_TRUE(call.lookup.has_value());
    EXPECT_EQ(call.lookup->operand, 1);
    EXPECT_EQ(call.lookup->begin, mesh.coordinate()[0] == 0 ? 0 : 3);
    EXPECT_EQ(call.lookup->length, mesh.coordinate()[0] == 0 ? 3 : 2);
    EXPECT_EQ(call.expected.at(0).layout, Layout{Partial()});
  });
}

TEST(Prepare, WithoutARuleOperandsAreReplicatedAndWhatIsWrittenComesBack) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto index = distribute_tensor(at::tensor({1, 6}, at::kLong), mesh, {Replicate()});
    const auto source = distribute_tensor(whole_numbers({2}), mesh, {Replicate()});
    const auto call = prepared(op_of("aten::put_"), {x, index, source, false});
    EXPECT_TRUE(call.is_fallback);
    EXPECT_FALSE(call.outputs_known);
    ASSERT_EQ(call.moves.size(), 3U);
    EXPECT_EQ(call.moves[0]->plan().to_string(), "all_gather(a: S(0) -> R)");
    EXPECT_EQ(call.moves[1], nullptr);
    ASSERT_EQ(call.write_backs.size(), 1U);
    EXPECT_EQ(call.write_backs[0].operand, 0);
    EXPECT_EQ(call.write_backs[0].plan->plan().to_string(), "slice(a: R -> S(0))");
    EXPECT_FALSE(call.write_backs[0].unread_sizes.has_value());
  });
}

TEST(Prepare, AWriteThatTheOwnLayoutCannotHoldIsRedistributedBack) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto call = prepared(op_of("aten::cumsum_"), {x, 0, c10::IValue()});
    EXPECT_EQ(
        call.explanation->to_string(),
        "aten::cumsum_(f32[4,2] @ mesh(a=2) {S(0)}): {R} -> {R}\n"
        "  0: all_gather(a: S(0) -> R)\n"
        "  0 written back: slice(a: R -> S(0))\n"
        "  16 bytes\n"
        "  by the rule ([a,b])->([a,b]) unsharded={a} linear={0}");
    EXPECT_TRUE(call.communicates);
  });
}

TEST(Prepare, AnUnreadTensorIsNotGatheredBeforeItIsWritten) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 3}), mesh, {Shard(0)});
    const auto sum = x.sum(0); // P(sum)
    const auto out = distribute_tensor(whole_numbers({3}), mesh, {Replicate()});
    const auto product = prepared(op_of("aten::exp", "out"), {out, sum});
    ASSERT_EQ(product.write_backs.size(), 1U);
    EXPECT_EQ(product.write_backs[0].operand, 1);
    EXPECT_EQ(product.write_backs[0].plan->plan().to_string(), "make_partial(a: R -> P(sum))");
    EXPECT_EQ(product.write_backs[0].unread_sizes, (std::vector<int64_t>{3}));
    EXPECT_TRUE(product.moves.empty());
    EXPECT_FALSE(product.communicates);
    EXPECT_TRUE(prepared(op_of("aten::mul", "out"), {sum, out, sum}).write_backs.empty())
        << "terms are stored as terms";
  });
}

TEST(Prepare, ADecompositionTakesTheCallWhereItApplies) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto mean = [&](int64_t dim) {
      return prepared(op_of("aten::mean", "dim"), {x, std::vector<int64_t>{dim}, false, c10::IValue()});
    };
    EXPECT_NE(mean(0).decomposition, nullptr);
    EXPECT_EQ(mean(1).decomposition, nullptr);
    EXPECT_EQ(mean(1).outputs.at(0).spec->layout(), Layout{Shard(0)});
  });
}

TEST(Prepare, ArgumentsThatNoDeviceTakesRaiseInTermsOfTheGlobalTensors) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto a = whole_numbers({4, 2});
    const auto b = whole_numbers({3, 4});
    const auto x = distribute_tensor(a, mesh, {Shard(0)});
    const auto y = distribute_tensor(b, mesh, {Shard(1)});
    EXPECT_EQ(error_text([&] { at::mm(x, y); }), error_text([&] { at::mm(a, b); }));
    EXPECT_EQ(error_text([&] { at::add(x, y); }), error_text([&] { at::add(a, b); }));
    EXPECT_EQ(error_text([&] { x.view({3, 3}); }), error_text([&] { a.view({3, 3}); }));
    EXPECT_EQ(error_text([&] { x.sum(2); }), error_text([&] { a.sum(2); }));
  });
}

TEST(Prepare, AMovedViewThatIsWrittenRaises) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 2}), mesh, {Shard(0)});
    const auto row = x.select(0, 1);
    expect_equal(full_tensor(row), whole_numbers({4, 2}).select(0, 1));
    const auto text =
        "[aten::mul_] argument 'self' (f32[2] @ mesh(a=2) {R}) is a view that had to be redistributed, so that "
        "writing "
        "to it would not change the tensor it was taken of. Redistribute that tensor first, or clone the view.";
    EXPECT_EQ(error_text<c10::ValueError>([&] { row.mul_(2); }), text);
    EXPECT_EQ(error_text<c10::ValueError>([&] { row.mul_(2); }), text) << "again";
    expect_contains(error_text<c10::ValueError>([&] { row.view({2, 1}).zero_(); }), "is a view that had to be");
    expect_equal(full_tensor(row.clone().mul_(2)), full_tensor(row) * 2);
    expect_equal(full_tensor(x), whole_numbers({4, 2}));
  });
}

TEST(Prepare, OnARankThatIsNotInTheMeshOutputsAreKnownAndNothingMoves) {
  run_on_ranks(3, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"a"}); // of the first two ranks
    const auto x = zeros({4, 2}, mesh, {Shard(0)});
    const auto call = prepared(op_of("aten::neg"), {x});
    EXPECT_EQ(call.is_outside, rank == 2);
    EXPECT_TRUE(call.outputs_known && call.moves.empty());
    EXPECT_EQ(call.outputs.at(0).spec, spec_of(x));
  });
}

} // namespace prepare_test

} // namespace weft
