#include "weft/graph/overlap/collective_forms.h"

#include "tests/support/forms_of.h"
#include "tests/support/rank_programs.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/localize/localize.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::graph {

namespace collective_forms_test {
using testing::forms_of;
using testing::run_alone;
using testing::Transfer;

/// The forms found in a step, and in the ranks' programs that it is localized to, which must all be the same.
struct Found {
  std::string at_step;
  std::string on_ranks; // without the names of values
};

/// "gather along 1 over tp of 2", or why not.
std::string without_names(const std::string& line) {
  const auto along = line.find(" along ") == std::string::npos ? line.find(" over ") : line.find(" along ");
  return along == std::string::npos
      ? line.substr(line.find(": ") + 2)
      : line.substr(0, line.find(' ')) + line.substr(along, line.find(':') - along) + "\n";
}

Found found_in_step(
    const std::string& mesh,
    const std::string& sizes,
    const std::string& before,
    const std::string& step,
    const std::string& after) {
  const auto program = parse_program(
      "program @ mesh(" + mesh + ")\n input %x: f32[" + sizes + "] {" + before + "} = user\n %y: f32[" + sizes + "] {" +
      after + "} = " + step + ": {" + before + "} -> {" + after + "})\n %z: f32[" + sizes + "] {" + after +
      "} = aten::relu(%y)\n output %z = user");
  verify(program);
  Found found{without_names(to_string(find_collectives(program))), {}};
  for (const auto rank : program.mesh->ranks()) {
    const auto local = localize(program, rank);
    verify(local);
    const auto text = to_string(find_collectives(local));
    std::string all;
    for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
      all += without_names(text.substr(begin, text.find('\n', begin) + 1 - begin));
    }
    if (rank == 0) {
      found.on_ranks = all;
    }
    EXPECT_EQ(all, found.on_ranks) << "rank " << rank << " of\n" << to_string(local);
  }
  return found;
}

TEST(CollectiveForms, AStepIsFoundInTheProgramsOfRanksThatItBecomes) {
  for (const std::string mesh : {"tp=2", "tp=4"}) {
    const auto members = mesh.substr(3);
    for (const std::string dim : {"0", "1", "2"}) {
      const auto place = " along " + dim + " over tp of " + members + "\n";
      const auto gather = found_in_step(mesh, "8,4,12", "S(" + dim + ")", "all_gather(%x, tp", "R");
      EXPECT_EQ(gather.at_step, "gather" + place);
      EXPECT_EQ(gather.on_ranks, "gather" + place);
      const auto scatter = found_in_step(mesh, "8,4,12", "P(sum)", "reduce_scatter(%x, tp", "S(" + dim + ")");
      EXPECT_EQ(scatter.at_step, "scatter(sum)" + place);
      EXPECT_EQ(scatter.on_ranks, "scatter(sum)" + place);
    }
    const auto reduction = found_in_step(mesh, "8,4", "P(max)", "all_reduce(%x, tp", "R");
    EXPECT_EQ(reduction.at_step, "reduction(max) over tp of " + members + "\n");
    EXPECT_EQ(reduction.on_ranks, reduction.at_step);
  }
}

TEST(CollectiveForms, WhatIsPaddedAndTrimmedIsFoundInTheStepAlone) {
  const auto first = found_in_step("tp=4", "5,8", "S(0)", "all_gather(%x, tp", "R");
  EXPECT_EQ(first.at_step, "gather along 0 of size 5 over tp of 4\n");
  EXPECT_EQ(first.on_ranks, "only a slice of it is used, of sizes [5,8]\n");
  const auto second = found_in_step("tp=4", "8,5", "S(1)", "all_gather(%x, tp", "R");
  EXPECT_EQ(second.at_step, "gather along 1 of size 5 over tp of 4\n");
  EXPECT_EQ(second.on_ranks, "only a slice of it is used, of sizes [8,5]\n");
  // A padded tensor is scattered in equal shards.
  const auto scatter = found_in_step("tp=4", "8,5", "P(sum)", "reduce_scatter(%x, tp", "S(1)");
  EXPECT_EQ(scatter.at_step, "scatter(sum) along 1 of size 5 over tp of 4\n");
  EXPECT_EQ(scatter.on_ranks, "scatter(sum) along 1 over tp of 4\n");
}

TEST(CollectiveForms, AStepOfSeveralMeshDimsIsOneAfterTheOtherOnRanks) {
  const auto gather = found_in_step("dp=2,tp=2", "8,8", "S(0), S(1)", "all_gather(%x, dp,tp", "R, R");
  EXPECT_EQ(gather.at_step, "dims 0 and 1 are sharded at once\n");
  EXPECT_EQ(gather.on_ranks, "gather along 0 over dp of 2\ngather along 1 over tp of 2\n");
  const auto scatter = found_in_step("dp=2,tp=2", "8,8", "P(sum), P(sum)", "reduce_scatter(%x, dp,tp", "S(0), S(0)");
  EXPECT_EQ(scatter.at_step, "scatter(sum) along 0 over dp,tp of 4\n");
  EXPECT_EQ(scatter.on_ranks, "scatter(sum) along 0 over dp of 2\nscatter(sum) along 0 over tp of 2\n");
}

TEST(CollectiveForms, WhatIsWrittenToInBetweenIsRefused) {
  const auto gather_with = [](const std::string& before, const std::string& between, const std::string& after) {
    return forms_of(
        "program\n input %x: f32[2,8] = user\n input %b: f32[8,8] = user\n %s: f32[2,8] = aten::relu(%x)\n" + before +
        R"(%g: f32[4,8] = _c10d_functional::all_gather_into_tensor(%s, 2, "0")
        %w: f32[4,8] = _c10d_functional::wait_tensor(%g)
        )" +
        between + R"(%m: f32[4,8] = aten::mm(%w, %b)
        )" +
        after + "output %m = user");
  };
  const std::string found = "gather %s -> %w along 0 over 0 of 2: %g %w\n";
  const std::string refused = "gather %g: it is written to in between\n";
  EXPECT_EQ(gather_with("", "", ""), found);
  EXPECT_EQ(gather_with("", "%i: f32[4,8] = aten::relu_(%w)\n", ""), refused);
  EXPECT_EQ(gather_with("", "%i: f32[2,8] = aten::relu_(%s)\n", ""), refused);
  // Writes to the shard are allowed before the gather and after the last use of the full tensor; %x is another tensor.
  EXPECT_EQ(gather_with("%i: f32[2,8] = aten::relu_(%s)\n", "", ""), found);
  EXPECT_EQ(gather_with("", "", "%i: f32[2,8] = aten::relu_(%s)\n"), found);
  EXPECT_EQ(gather_with("", "%i: f32[2,8] = aten::relu_(%x)\n", ""), found);
}

TEST(CollectiveForms, AWriteToAStepIsRefusedToo) {
  EXPECT_EQ(
      forms_of(R"(program @ mesh(tp=2)
      input %x: f32[4,8] {P(sum)} = user
        %y: f32[4,8] {S(0)} = reduce_scatter(%x, tp: {P(sum)} -> {S(0)})
        %i: f32[4,8] {S(0)} = aten::relu_(%y)
        %z: f32[4,8] {S(0)} = aten::relu(%y)
        %r: f32[4,8] {R} = all_reduce(%x, tp: {P(sum)} -> {R})
        %j: f32[4,8] {R} = aten::relu_(%r)
        %p: f32[4,8] {P(sum)} = aten::neg(%x)
        %k: f32[4,8] {P(sum)} = aten::neg_(%p)
        %q: f32[4,8] {S(0)} = reduce_scatter(%p, tp: {P(sum)} -> {S(0)})
      output %z = user
      output %j = user
      output %q = user)"),
      "scatter %y: it is written to in between\n"
      "scatter %q: it is written to in between\n"
      "reduction %r: it is written to in between\n");
}

/// Checks that a kept value has the same values when it is remade from the full tensor.
void expect_remade(const std::string& text) {
  const auto expected = run_alone(parse_program(text), Transfer::AtStart);
  auto program = parse_program(text);
  const auto forms = find_collectives(program);
  const auto& gather = forms.gathers.at(0);
  ASSERT_EQ(gather.refused, "");
  ASSERT_FALSE(gather.kept.empty());
  std::unordered_set<const Node*> own(gather.nodes.begin(), gather.nodes.end());
  auto* behind = gather.nodes.back()->next();
  for (const auto& kept : gather.kept) {
    auto* made = remake(gather, kept, gather.full, behind);
    EXPECT_EQ(made->tensor().sizes, kept.value->tensor().sizes);
    EXPECT_EQ(made->tensor().dtype, kept.value->tensor().dtype);
    const auto uses = kept.value->uses();
    for (const auto& use : uses) {
      if (own.count(use.node) == 0 && made != kept.value) {
        use.node->set_operand(use.operand, made);
      }
    }
  }
  verify(program);
  for (const auto& kept : gather.kept) {
    for (const auto& use : kept.value->uses()) {
      EXPECT_TRUE(own.count(use.node) > 0) << kept.value->name() << " of\n" << to_string(program);
    }
  }
  const auto results = run_alone(program, Transfer::AtStart);
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_TRUE(results[i].equal(expected[i])) << i << " of\n" << to_string(program);
  }
}

TEST(CollectiveForms, AShardThatWasReplacedIsFoundAgain) {
  const auto program = parse_program(R"(program
      input %x: f32[2,4] = user
        %s: f32[2,4] = aten::relu(%x)
        %i: i32[2,4] = aten::view.dtype(%s, i32)
        %g: i32[4,4] = _c10d_functional::all_gather_into_tensor(%i, 2, "0")
        %w: i32[4,4] = _c10d_functional::wait_tensor(%g)
        %v: f32[4,4] = aten::view.dtype(%w, f32)
        %h: f32[4,4] = _c10d_functional::all_gather_into_tensor(%s, 2, "0")
        %u: f32[4,4] = _c10d_functional::wait_tensor(%h)
      output %v = user
      output %u = user)");
  const auto forms = find_collectives(program);
  auto* s = program.graph->first()->output();
  auto* x = program.graph->inputs()[0];
  EXPECT_EQ(current_shard(forms.gathers.at(0)), s);
  EXPECT_EQ(current_shard(forms.gathers.at(1)), s);
  program.graph->replace_all_uses(s, x);
  EXPECT_EQ(current_shard(forms.gathers.at(0)), x);
  EXPECT_EQ(current_shard(forms.gathers.at(1)), x);
}

TEST(CollectiveForms, KeptValuesAreRemadeFromTheFullTensor) {
  const std::string head = R"(program
      input %x: f32[2,4] = user
        %g: f32[4,4] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%g)
        [%a: f32[2,4], %c: f32[2,4]] = aten::split.Tensor(%w, 2)
        %j: f32[2,8] = aten::cat([%a, %c], 1)
        %u: f32[2,8] = aten::relu(%j)
      )";
  expect_remade(head + "%m: f32[4,4] = aten::neg(%w)\n output %u = user\n output %m = user");
  expect_remade(head + "%m: f32[2,4] = aten::neg(%c)\n output %u = user\n output %m = user");
  expect_remade(head + "%m: f32[4,4] = aten::neg(%w)\n output %u = user\n output %m = user\n output %g = user");
  expect_remade(R"(program
      input %x: f32[2,4] = user
        %g: f32[4,4] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%g)
        %s: f32[2,2,4] = aten::view(%w, [2, 2, 4])
        %t: f32[2,2,4|4,8,1] = aten::permute(%s, [1, 0, 2])
        %j: f32[2,8] = aten::reshape(%t, [2, 8])
        %u: f32[2,8] = aten::relu(%j)
        %m: f32[2,2,4] = aten::neg(%s)
      output %u = user
      output %m = user)");
  // The kept value has another dtype than the full tensor.
  expect_remade(R"(program
      input %x: f32[2,4] = user
        %i: i32[2,4] = aten::view.dtype(%x, i32)
        %g: i32[4,4] = _c10d_functional::all_gather_into_tensor(%i, 2, "0")
        %w: i32[4,4] = _c10d_functional::wait_tensor(%g)
        [%a: i32[2,4], %c: i32[2,4]] = aten::split.Tensor(%w, 2)
        %j: i32[2,8] = aten::cat([%a, %c], 1)
        %v: f32[2,8] = aten::view.dtype(%j, f32)
        %u: f32[2,8] = aten::relu(%v)
        %m: i32[4,4] = aten::neg(%w)
      output %u = user
      output %m = user)");
}

/// A gather whose shards are joined along dim 1, a matmul and its scatter, repeated, with many uses of every value.
std::string long_program(int layers) {
  std::string text = "program\n input %x: f32[2,8] = user\n input %b: f32[16,8] = user\n";
  for (int i = 0; i < layers; ++i) {
    const auto n = std::to_string(i);
    text += "%g" + n + ": f32[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, \"0\")\n%w" + n +
        ": f32[4,8] = _c10d_functional::wait_tensor(%g" + n + ")\n[%a" + n + ": f32[2,8], %c" + n +
        ": f32[2,8]] = aten::split.Tensor(%w" + n + ", 2)\n%j" + n + ": f32[2,16] = aten::cat([%a" + n + ", %c" + n +
        "], 1)\n%m" + n + ": f32[2,8] = aten::mm(%j" + n + ", %b)\n%r" + n +
        ": f32[1,8] = _c10d_functional::reduce_scatter_tensor(%m" + n + ", \"sum\", 2, \"0\")\n%v" + n +
        ": f32[1,8] = _c10d_functional::wait_tensor(%r" + n + ")\n";
  }
  return text + "output %v0 = user";
}

/// One gathered value with many uses, and many slices of it that a list joins.
std::string wide_program(int users) {
  std::string text = R"(program
      input %x: f32[2,8] = user
        %g: f32[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
        %w: f32[4,8] = _c10d_functional::wait_tensor(%g)
        )";
  std::string list;
  for (int i = 0; i < users; ++i) {
    const auto n = std::to_string(i);
    text += "%s" + n + ": f32[2,8] = aten::slice.Tensor(%w, 0, 2, 4)\n%u" + n + ": f32[4,8] = aten::relu(%w)\n";
    list += (i == 0 ? "%s" : ", %s") + n;
  }
  return text + "%j: f32[" + std::to_string(2 * users) + ",8] = aten::cat([" + list + "])\n output %j = user";
}

TEST(CollectiveForms, LooksAtEveryUseAFewTimesAtMost) {
  const auto looked_at = [](const std::string& text) { return find_collectives(parse_program(text)).looked_at; };
  // 50,000 nodes cost five times what 10,000 do, and every use is looked at a few times.
  EXPECT_LE(looked_at(long_program(7143)), 5 * looked_at(long_program(1429)));
  EXPECT_LE(looked_at(long_program(7143)), 4 * 50001U);
  EXPECT_LE(looked_at(wide_program(25000)), 5 * looked_at(wide_program(5000)));
  EXPECT_LE(looked_at(wide_program(25000)), 4 * 50001U);
}

} // namespace collective_forms_test

} // namespace weft::graph
